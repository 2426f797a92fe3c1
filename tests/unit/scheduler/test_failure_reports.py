"""What users see of failed attempts: the latest failure of each pod, written by few requests at once."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from extender_service.kube.api_errors import ApiError, ApiStatus
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pending_pods import PendingPodCondition, PendingPodStatus
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduler.failure import Failure
from extender_service.scheduler.failure_reports import MOST_REPORTS_AT_ONCE, FailureReports
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduling import write_turns
from extender_service.scheduling.pod_patches import nomination_patch
from extender_service.scheduling.pod_writes import PodWrites
from tests.support.clusters.scheduler_world import turns, whole
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_pod


class Api:
    """Takes patches once its gate is open, those of the namespaces in `open` at once. It refuses the first `refusals`;
    after others, pods have the `version`."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.open: set[str] = set()
        self.refusals = 0
        self.version = ""
        self.under_way = self.most_under_way = 0
        self.statuses: list[tuple[str, Mapping[str, Any]]] = []

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> str:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        if namespace not in self.open:
            await self.gate.wait()
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.refusals:
            self.refusals -= 1
            raise ApiError(ApiStatus(403, "Forbidden", "a webhook says no"))
        self.statuses.append((name, patch["status"]))
        return self.version

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        raise AssertionError("reports delete nothing")

    def messages(self, name: str) -> list[str]:
        """The conditions' texts that a pod was given, in this order."""
        return [status["conditions"][0]["message"] for named, status in self.statuses if named == name]


class Reporting:
    """Reports about pods that the watch shows as pending."""

    def __init__(self, *pods: Pod, with_generation: bool = False) -> None:
        self.api = Api()
        self.pending = PodLister()
        for pod in pods:
            self.pending.put(whole(pod))
        self.writes = PodWrites(self.api, asyncio.sleep)
        self.unwritten: list[str] = []
        self.now = 1_800_000_000.0
        self.reports = FailureReports(
            self.writes,
            self.pending,
            lambda: self.now,
            with_generation=with_generation,
            on_unwritten=lambda pod: self.unwritten.append(pod.status.nominated_node_name),
        )

    def show(self, pod: Pod, version: str, message: str = "", nominated: str = "", generation: int = 1) -> Pod:
        """Let the watch show a version of a pod, with a condition if there is a message; returns it."""
        condition = PendingPodCondition("PodScheduled", "False", "Unschedulable", message, "2026-01-01T00:00:00Z")
        status = PendingPodStatus(conditions=(condition,) if message else (), nominated_node_name=nominated)
        shown = whole(pod)
        metadata = msgspec.structs.replace(shown.metadata, resource_version=version, generation=generation)
        shown = msgspec.structs.replace(shown, metadata=metadata, status=status)
        self.pending.put(shown)
        return shown

    def nominate(self, pod: Pod, node_name: str, message: str) -> None:
        """Fail an attempt that decides about the pod's nomination."""
        self.pending.nominations.decide(pod, node_name)
        self.reports.add(pod, failure(message, nomination=node_name))

    def nominated_elsewhere(self, pod: Pod) -> str:
        """The nominated node that attempts see once the watch shows that another program nominated a pod for b."""
        return self.pending.nominations.as_decided(self.show(pod, "9", nominated="b")).status.nominated_node_name

    async def end(self) -> None:
        self.api.gate.set()
        await self.reports.close()
        assert (len(self.reports), len(self.writes)) == (0, 0)


def failure(message: str, nomination: str | None = None) -> Failure:
    return Failure(message, "Unschedulable", nomination=nomination)


def fill(reporting: Reporting, pods: list[Pod]) -> None:
    """Take all turns, so that what is added next waits."""
    for pod in pods:
        reporting.reports.add(pod, failure("first"))


@in_event_loop
async def test_thousands_of_failures_are_written_by_few_requests_at_once() -> None:
    pods = [make_pod(f"p{number}") for number in range(2000)]
    reporting = Reporting(*pods)
    fill(reporting, pods)
    await turns()
    assert reporting.api.under_way == MOST_REPORTS_AT_ONCE
    await reporting.end()
    assert [name for name, _ in reporting.api.statuses] == [pod.metadata.name for pod in pods]
    assert reporting.api.most_under_way == MOST_REPORTS_AT_ONCE


@in_event_loop
async def test_a_pod_that_fails_often_while_writes_wait_is_written_once_with_its_last_failure() -> None:
    others, pod = [make_pod(f"p{number}") for number in range(MOST_REPORTS_AT_ONCE)], make_pod("often")
    reporting = Reporting(*others, pod)
    fill(reporting, others)
    await turns()
    for number in range(1000):
        reporting.reports.add(pod, failure(f"failure {number}"))
    assert len(reporting.reports) == MOST_REPORTS_AT_ONCE + 1
    await reporting.end()
    assert reporting.api.messages("often") == ["failure 999"]


@in_event_loop
async def test_a_nomination_that_is_not_written_yet_outlives_a_failure_that_leaves_it_alone() -> None:
    others, pod = [make_pod(f"p{number}") for number in range(MOST_REPORTS_AT_ONCE)], make_pod("p")
    reporting = Reporting(*others, pod)
    fill(reporting, others)
    reporting.reports.add(pod, failure("preempts", nomination="a"))
    reporting.reports.add(pod, failure("waits for its victims"))
    await reporting.end()
    [status] = [status for name, status in reporting.api.statuses if name == "p" and "nominatedNodeName" in status]
    assert (status["nominatedNodeName"], status["conditions"][0]["message"]) == ("a", "waits for its victims")


@in_event_loop
async def test_a_nomination_is_written_before_all_failures_that_wait() -> None:
    others, pod = [make_pod(f"p{number}") for number in range(3 * MOST_REPORTS_AT_ONCE)], make_pod("p")
    reporting = Reporting(*others, pod)
    fill(reporting, [*others, pod])
    reporting.reports.add(pod, failure("preempts", nomination="a"))
    await reporting.end()
    assert [name for name, _ in reporting.api.statuses].index("p") == MOST_REPORTS_AT_ONCE
    assert reporting.api.messages("p") == ["preempts"]


@in_event_loop
async def test_a_nomination_that_the_binding_wrote_is_withdrawn_before_all_failures_that_wait() -> None:
    others, pod = [make_pod(f"p{number}") for number in range(3 * MOST_REPORTS_AT_ONCE)], make_pod("p")
    reporting = Reporting(*others, pod)
    fill(reporting, others)
    reporting.reports.note_nomination(pod, "a")
    reporting.pending.nominations.decide(pod, "")
    reporting.reports.add(pod, failure("PreBind failed", nomination=""))
    await reporting.end()
    assert [name for name, _ in reporting.api.statuses].index("p") == MOST_REPORTS_AT_ONCE


@in_event_loop
async def test_a_pod_whose_nomination_went_first_has_one_patch_under_way() -> None:
    others = [make_pod(f"p{number}", namespace="open") for number in range(3 * MOST_REPORTS_AT_ONCE)]
    pod = make_pod("p")
    reporting = Reporting(*others, pod)
    reporting.api.open = {"open"}
    fill(reporting, [*others, pod])
    reporting.reports.add(pod, failure("preempts", nomination="a"))
    while pod_uid(pod) not in reporting.writes:
        await turns(1)
    reporting.reports.add(pod, failure("waits for its victims"))
    await turns(50)
    assert len(reporting.api.statuses) == len(others)
    assert (reporting.api.under_way, len(reporting.reports)) == (1, 2)
    await reporting.end()
    assert reporting.api.messages("p") == ["preempts", "waits for its victims"]


@in_event_loop
async def test_nothing_is_written_about_pods_that_are_gone_made_again_or_have_a_node() -> None:
    others = [make_pod(f"p{number}") for number in range(MOST_REPORTS_AT_ONCE)]
    gone, again, placed = make_pod("gone"), make_pod("again", uid="first"), make_pod("placed")
    reporting = Reporting(*others, gone, again, placed)
    fill(reporting, [*others, gone, again, placed])
    await turns()
    reporting.pending.take("default/gone")
    reporting.pending.put(whole(make_pod("again", uid="second")))
    reporting.reports.forget(pod_uid(placed))
    await reporting.end()
    assert {name for name, _ in reporting.api.statuses} == {pod.metadata.name for pod in others}


@in_event_loop
async def test_patches_that_hang_hold_up_no_other_namespace_and_a_pod_has_one_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_turns, "HANG_SECONDS", 0.02)
    broken, pod = [make_pod(f"p{number}", namespace="broken") for number in range(1000)], make_pod("p")
    reporting = Reporting(*broken, pod)
    reporting.api.open = {"default"}
    fill(reporting, [*broken, pod])
    async with asyncio.timeout(5):
        while not reporting.api.statuses:
            await asyncio.sleep(0.01)
    assert reporting.api.messages("p") == ["first"]
    for number in range(100):
        for each in broken:
            reporting.reports.add(each, failure(f"failure {number}"))
        await turns(1)
    assert len(reporting.writes) < MOST_REPORTS_AT_ONCE + write_turns.MOST_HANGING_IN_NAMESPACE
    await reporting.end()
    assert reporting.api.messages("p0") == ["first", "failure 99"]
    assert reporting.api.messages("p999") == ["failure 99"]


@pytest.mark.parametrize("shown", ["", "a", "b"])
@in_event_loop
async def test_the_end_of_a_nomination_is_reported_by_the_watch_if_the_watch_shows_the_nomination(shown: str) -> None:
    others, pod = [make_pod(f"p{number}") for number in range(MOST_REPORTS_AT_ONCE)], make_pod("p")
    reporting = Reporting(*others)
    reporting.show(pod, "1", nominated=shown)
    fill(reporting, others)
    for node_name in ("a", "a", ""):
        reporting.nominate(pod, node_name, "failed")
    assert reporting.unwritten == ([] if shown == "a" else ["a"])
    await reporting.end()


@pytest.mark.parametrize("is_answered", [False, True])
@in_event_loop
async def test_a_nomination_is_withdrawn_though_the_watch_does_not_show_it_yet(is_answered: bool) -> None:
    pod = make_pod("p")
    reporting = Reporting()
    reporting.show(pod, "1")
    reporting.reports.add(pod, failure("preempts", nomination="a"))
    await turns()
    if is_answered:
        reporting.api.gate.set()
        await turns()
        assert len(reporting.api.statuses) == 1
    reporting.now += 60
    reporting.reports.add(pod, failure("no room", nomination=""))
    await reporting.end()
    (_, first), (_, last) = reporting.api.statuses
    assert (first["nominatedNodeName"], last["nominatedNodeName"]) == ("a", None)
    assert reporting.api.messages("p") == ["preempts", "no room"]
    times = {status["conditions"][0]["lastTransitionTime"] for status in (first, last)}
    assert len(times) == 1  # it has been unschedulable all the time


@in_event_loop
async def test_an_older_text_does_not_win_as_the_watch_still_shows_it_when_it_is_right_again() -> None:
    pod = make_pod("p")
    reporting = Reporting()
    reporting.show(pod, "1", "no room")
    for message in ("no node", "no room"):
        reporting.reports.add(pod, failure(message))
        await turns()
    await reporting.end()
    reporting.reports.add(pod, failure("no room"))
    await reporting.reports.close()
    assert reporting.api.messages("p") == ["no node", "no room", "no room"]
    assert {status["conditions"][0]["lastTransitionTime"] for _, status in reporting.api.statuses} == {
        "2026-01-01T00:00:00Z"
    }


@pytest.mark.parametrize("nomination", ["a", "", None])
@in_event_loop
async def test_once_the_watch_shows_the_last_write_only_what_changes_is_written(nomination: str | None) -> None:
    pod = make_pod("p")
    reporting = Reporting()
    reporting.show(pod, "1")
    reporting.reports.add(pod, failure("preempts", nomination="a"))
    await turns()
    reporting.reports.add(pod, failure("no room", nomination=nomination))
    await reporting.end()
    reporting.show(pod, "2", "preempts", "a")
    reporting.show(pod, "3", "no room", nomination or "")
    reporting.reports.add(pod, failure("no room", nomination=nomination))
    reporting.reports.add(pod, failure("no room", nomination=nomination))
    await reporting.reports.close()
    assert len(reporting.api.statuses) == 2
    assert not reporting.reports._sent
    reporting.reports.add(pod, failure("no room", nomination="b"))
    await reporting.reports.close()
    assert reporting.api.statuses[2:] == [("p", {"nominatedNodeName": "b"})]


@in_event_loop
async def test_what_was_written_is_not_remembered_of_pods_that_are_gone() -> None:
    reporting = Reporting()
    reporting.api.gate.set()
    for number in range(1000):
        pod = make_pod(f"p{number}")
        reporting.show(pod, "1")
        reporting.reports.add(pod, failure("no room"))
        await reporting.reports.close()
        reporting.pending.take(f"default/p{number}")
    assert len(reporting.api.statuses) == 1000
    assert len(reporting.reports._sent) < 100


@in_event_loop
async def test_a_condition_names_the_generation_that_was_attempted_though_the_pod_has_changed_since() -> None:
    others, pod = [make_pod(f"p{number}") for number in range(MOST_REPORTS_AT_ONCE)], make_pod("changed")
    reporting = Reporting(*others, with_generation=True)
    fill(reporting, others)
    await turns()
    reporting.reports.add(reporting.show(pod, "1", generation=1), failure("no room"))
    reporting.show(pod, "2", generation=2)
    await reporting.end()
    [status] = [status for name, status in reporting.api.statuses if name == "changed"]
    assert status["conditions"][0]["observedGeneration"] == 1


@in_event_loop
async def test_a_nomination_that_is_withdrawn_before_it_was_written_gives_way_to_one_by_another_program() -> None:
    others, pod = [make_pod(f"p{number}") for number in range(MOST_REPORTS_AT_ONCE)], make_pod("p")
    reporting = Reporting(*others)
    reporting.show(pod, "1", "no room")
    fill(reporting, others)
    await turns()
    reporting.nominate(pod, "a", "preempts")
    reporting.nominate(pod, "", "no room")
    await reporting.end()
    assert "p" not in [name for name, _ in reporting.api.statuses]
    assert reporting.unwritten == ["a"]
    assert reporting.nominated_elsewhere(pod) == "b"


@in_event_loop
async def test_a_nomination_that_is_taken_back_before_it_was_written_gives_way_to_one_by_another_program() -> None:
    others, pod = [make_pod(f"p{number}") for number in range(MOST_REPORTS_AT_ONCE)], make_pod("p")
    reporting = Reporting(*others)
    reporting.show(pod, "1")
    fill(reporting, others)
    await turns()
    reporting.nominate(pod, "a", "preempts")
    reporting.reports.note_taken_back(pod)
    assert reporting.nominated_elsewhere(pod) == "b"
    await reporting.end()


@in_event_loop
async def test_a_nomination_that_is_taken_back_while_it_waits_for_an_earlier_text_gives_way_to_one_elsewhere() -> None:
    reporting, pod = Reporting(), make_pod("p")
    reporting.show(pod, "1")
    reporting.reports.add(pod, failure("no room"))
    await turns()
    reporting.nominate(pod, "a", "preempts")
    reporting.reports.note_taken_back(pod)
    assert reporting.nominated_elsewhere(pod) == "b"
    await reporting.end()


@in_event_loop
async def test_a_nomination_that_was_written_is_taken_back_though_a_text_was_written_since() -> None:
    reporting, pod = Reporting(), make_pod("p")
    reporting.show(pod, "1")
    reporting.api.gate.set()
    reporting.nominate(pod, "a", "preempts")
    await reporting.end()
    reporting.reports.add(pod, failure("waits for its victims"))
    await reporting.end()
    reporting.reports.note_taken_back(pod)
    late = reporting.show(pod, "2", "preempts", "a")
    assert reporting.pending.nominations.as_decided(late).status.nominated_node_name == ""


@pytest.mark.parametrize(("shown", "decided"), [("", "a"), ("a", "")])
@in_event_loop
async def test_a_nomination_whose_write_is_refused_gives_way_to_one_by_another_program(
    shown: str, decided: str
) -> None:
    reporting, pod = Reporting(), make_pod("p")
    reporting.show(pod, "1", nominated=shown)
    reporting.api.refusals = 1
    reporting.nominate(pod, decided, "preempts")
    await reporting.end()
    assert reporting.nominated_elsewhere(pod) == "b"


@in_event_loop
async def test_a_refused_nomination_that_a_failure_withdraws_gives_way_though_that_write_changes_nothing() -> None:
    reporting, pod = Reporting(), make_pod("p")
    reporting.show(pod, "1", "no room")
    reporting.api.refusals, reporting.api.version = 1, "1"
    reporting.nominate(pod, "a", "preempts")
    await turns()
    reporting.nominate(pod, "", "no room")
    await reporting.end()
    [(_, status)] = reporting.api.statuses
    assert status["nominatedNodeName"] is None
    assert reporting.nominated_elsewhere(pod) == "b"


@in_event_loop
async def test_a_refused_nomination_that_is_taken_back_gives_way_though_that_write_changes_nothing() -> None:
    reporting, pod = Reporting(), make_pod("p")
    reporting.show(pod, "1")
    reporting.api.refusals, reporting.api.version = 1, "1"
    reporting.nominate(pod, "a", "preempts")
    await turns()
    reporting.reports.note_taken_back(pod)
    reporting.writes.patch_status(pod, nomination_patch(pod, ""))
    reporting.api.gate.set()
    await reporting.writes.close()
    await reporting.end()
    assert reporting.nominated_elsewhere(pod) == "b"


@in_event_loop
async def test_a_nomination_counts_until_the_watch_shows_the_version_that_has_it() -> None:
    reporting, pod = Reporting(), make_pod("p")
    shown = reporting.show(pod, "1")
    reporting.api.version = "3"
    reporting.nominate(pod, "a", "preempts")
    await reporting.end()
    assert reporting.pending.nominations.as_decided(shown).status.nominated_node_name == "a"
    older = reporting.show(pod, "2")
    assert reporting.pending.nominations.as_decided(older).status.nominated_node_name == "a"
    reporting.show(pod, "3", "preempts", "a")
    assert reporting.nominated_elsewhere(pod) == "b"


@in_event_loop
async def test_a_nomination_that_waits_outlives_an_earlier_write_that_changes_nothing() -> None:
    reporting, pod = Reporting(), make_pod("p")
    shown = reporting.show(pod, "1")
    reporting.api.version = "1"
    reporting.nominate(pod, "a", "preempts")
    await turns()
    reporting.nominate(pod, "b", "preempts")
    reporting.api.gate.set()
    reporting.api.gate.clear()  # for the second write
    await turns()
    assert len(reporting.api.statuses) == 1
    assert reporting.pending.nominations.as_decided(shown).status.nominated_node_name == "b"
    await reporting.end()


@in_event_loop
async def test_a_nomination_that_was_written_stays_though_a_later_text_is_refused() -> None:
    reporting, pod = Reporting(), make_pod("p")
    shown = reporting.show(pod, "1")
    reporting.api.gate.set()
    reporting.nominate(pod, "a", "preempts")
    await reporting.end()
    reporting.api.refusals = 1
    reporting.reports.add(pod, failure("waits for its victims"))
    await reporting.end()
    assert reporting.pending.nominations.as_decided(shown).status.nominated_node_name == "a"


@in_event_loop
async def test_a_nomination_counts_where_versions_began_again_as_etcd_was_restored() -> None:
    reporting, pod = Reporting(), make_pod("p")
    shown = reporting.show(pod, "100")
    reporting.api.version = "60"
    reporting.nominate(pod, "a", "preempts")
    await reporting.end()
    assert reporting.pending.nominations.as_decided(shown).status.nominated_node_name == "a"

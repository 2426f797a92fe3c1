"""What users see of failed attempts: the latest failure of each pod, written by few requests at once."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduler.failure import Failure
from extender_service.scheduler.failure_reports import MOST_REPORTS_AT_ONCE, FailureReports
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduling import write_turns
from extender_service.scheduling.pod_writes import PodWrites
from tests.support.clusters.scheduler_world import turns, whole
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_pod


class Api:
    """Takes patches once its gate is open; those of the namespaces in `open` at once."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.open: set[str] = set()
        self.under_way = self.most_under_way = 0
        self.statuses: list[tuple[str, Mapping[str, Any]]] = []

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        if namespace not in self.open:
            await self.gate.wait()
        await asyncio.sleep(0)
        self.under_way -= 1
        self.statuses.append((name, patch["status"]))

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        raise AssertionError("reports delete nothing")

    def messages(self, name: str) -> list[str]:
        """The conditions' texts that a pod was given, in this order."""
        return [status["conditions"][0]["message"] for named, status in self.statuses if named == name]


class Reporting:
    """Reports about pods that the watch shows as pending."""

    def __init__(self, *pods: Pod) -> None:
        self.api = Api()
        self.pending = PodLister()
        for pod in pods:
            self.pending.put(whole(pod))
        self.writes = PodWrites(asyncio.sleep)
        self.reports = FailureReports(self.api, self.writes, self.pending, lambda: 1_800_000_000.0)

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

"""Victims are evicted: in which order, how many at once, and what becomes of the pod meanwhile, by release."""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from typing import Any, ClassVar

import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Permit, PreBind
from extender_service.framework.status import Code, Status
from extender_service.kube.api_errors import ApiError, ApiStatus
from extender_service.kube.types.core import Pod, ResourceList
from extender_service.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from extender_service.scheduler.failure_reports import MOST_REPORTS_AT_ONCE
from extender_service.scheduling import write_turns
from extender_service.scheduling.eviction import MOST_VICTIMS_AT_ONCE, Evictions, Preemptor, Victim
from extender_service.scheduling.pod_writes import PodWrites
from tests.support.clusters.scheduler_world import SchedulerWorld, important, turns, whole
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.virtual_time import in_virtual_time

CPU: ResourceList = {"cpu": "4"}


class Api:
    """Takes patches of a namespace once its gate is open, and deletions at once."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.open: set[str] = set()
        self.under_way = 0
        self.written: list[tuple[str, str]] = []

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> str:
        self.under_way += 1
        if namespace not in self.open:
            await self.gate.wait()
        self.under_way -= 1
        self.written.append(("patch", name))
        return ""

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        self.written.append(("delete", name))


def preemptor_in(world: SchedulerWorld) -> Preemptor:
    pod = whole(make_pod("important"))
    return Preemptor(pod, world.engine.profiles.of(pod), "a", DefaultPreemption.name)


@in_event_loop
async def test_of_thousands_of_victims_few_are_written_about_at_once() -> None:
    api, world = Api(), SchedulerWorld()
    writes = PodWrites(api, asyncio.sleep)
    evictions = Evictions(world.engine, world.handle.preemptions, writes, world.events.append, lambda: 0.0)
    preemptor = preemptor_in(world)
    victims = [Victim("default", f"p{number}", f"uid-{number}") for number in range(1000)]
    storm = asyncio.gather(*(evictions.evict(preemptor, [victim], list) for victim in victims))
    await turns()
    assert api.under_way == MOST_VICTIMS_AT_ONCE
    api.gate.set()
    await storm
    assert {name for verb, name in api.written if verb == "delete"} == {victim.name for victim in victims}
    assert len(api.written) == 2000
    assert len(world.events) == 1000


@in_event_loop
async def test_victims_whose_deletion_hangs_hold_up_no_preemption_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_turns, "HANG_SECONDS", 0.02)
    api, world = Api(), SchedulerWorld()
    api.open = {"default"}
    writes = PodWrites(api, asyncio.sleep)
    evictions = Evictions(world.engine, world.handle.preemptions, writes, world.events.append, lambda: 0.0)
    preemptor = preemptor_in(world)
    broken = [Victim("broken", f"b{number}", f"uid-{number}") for number in range(1000)]
    storm = [asyncio.create_task(evictions.evict(preemptor, [victim], list)) for victim in broken]
    await turns()
    async with asyncio.timeout(5):
        await evictions.evict(preemptor._replace(node_name="b"), [Victim("default", "v", "uid-v")], list)
    assert api.written == [("patch", "v"), ("delete", "v")]
    assert api.under_way < MOST_VICTIMS_AT_ONCE + write_turns.MOST_HANGING_IN_NAMESPACE
    for task in storm:
        task.cancel()
    await asyncio.wait(storm)
    api.gate.set()
    async with asyncio.timeout(5):
        await asyncio.gather(*(evictions.evict(preemptor, [victim], list) for victim in broken))
    assert len(api.written) == 2 * 1001


def preempting(minor: int, *victims: Pod) -> SchedulerWorld:
    """A world in which the important pod p preempts `victims`, whose deletions wait for the gate."""
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor))
    world.api.slow, world.api.gate = {victim.metadata.name for victim in victims}, asyncio.Event()
    world.create(*victims, important("p"))
    assert world.attempt() == "p"
    return world


def try_again(world: SchedulerWorld) -> list[str]:
    """Let an event of another pod and the end of the backoff have their say; returns the pods that are tried."""
    world.create(make_pod("bystander", "a"))
    world.delete(make_pod("bystander", "a"))
    world.clock.pass_seconds(60)
    world.queue.flush_backoff_completed()
    return world.attempt_all()


@pytest.mark.parametrize(("minor", "tells_at_once"), [(31, False), (32, False), (33, True), (37, True)])
@in_event_loop
async def test_a_pod_is_said_to_wait_for_its_victims_at_once_from_1_33_on(minor: int, tells_at_once: bool) -> None:
    world = preempting(minor, make_pod("victim", "a", requests=CPU))
    await turns()
    assert list(world.queue.nominator.node_of.values()) == ["a"]
    assert world.notes(important("p")) == (["FailedScheduling"] if tells_at_once else [])
    assert world.api.named("patch") == (["p"] if tells_at_once else [])
    world.api.gate.set()
    await world.scheduler.close()
    assert world.notes(important("p")) == ["FailedScheduling"]
    assert sorted(world.api.named("patch")) == ["p", "victim"]


@pytest.mark.parametrize("minor", [33, 34, 35, 36, 37])
@in_event_loop
async def test_the_pod_is_kept_out_of_the_queue_while_victims_are_left_and_wakes_as_the_last_one_goes(
    minor: int,
) -> None:
    victims = [make_pod(name, "a", requests={"cpu": "2"}) for name in ("one", "two")]
    world = preempting(minor, *victims)
    await turns()
    assert try_again(world) == []
    [entry] = world.queue.entries()
    assert entry.queue == "gated"
    assert "DefaultPreemption" in entry.info.unschedulable_plugins
    world.api.gate.set()
    await turns()
    for victim in victims:
        world.delete(victim)
    world.clock.pass_seconds(60)
    world.queue.flush_backoff_completed()
    assert world.attempt_all() == ["p"]
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]
    assert [world.notes(victim) for victim in victims] == [["Preempted"]] * 2


@pytest.mark.parametrize(("minor", "is_tried"), [(33, True), (34, True), (35, False), (37, False)])
@in_event_loop
async def test_until_1_34_the_pod_is_tried_while_the_last_victim_is_being_evicted(minor: int, is_tried: bool) -> None:
    world = preempting(minor, make_pod("victim", "a", requests=CPU))
    await turns()
    assert try_again(world) == (["p"] if is_tried else [])
    world.api.gate.set()
    await world.scheduler.close()


@in_event_loop
async def test_the_pod_is_tried_again_once_the_last_victim_is_seen_to_go_though_its_deletion_is_not_answered() -> None:
    victim = make_pod("victim", "a", requests=CPU)
    world = preempting(37, victim)
    await turns()
    world.delete(victim)
    world.clock.pass_seconds(60)
    world.queue.flush_backoff_completed()
    assert world.attempt_all() == ["p"]
    world.api.gate.set()
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]


@in_event_loop
async def test_the_last_victim_is_evicted_after_all_others() -> None:
    victims = [make_pod(name, "a", requests={"cpu": "1"}) for name in ("w", "x", "y", "z")]
    world = preempting(37, *victims)
    world.api.slow -= {"z"}
    await turns()
    assert world.api.named("delete") == []
    world.api.gate.set()
    await world.scheduler.close()
    assert world.api.named("delete")[-1] == "z"
    assert sorted(world.api.named("delete")) == ["w", "x", "y", "z"]


@in_virtual_time
async def test_a_pod_whose_victim_cannot_be_deleted_is_tried_again_a_second_later_and_the_last_victim_stays() -> None:
    victims = [make_pod(name, "a", requests={"cpu": "2"}) for name in ("one", "two")]
    world = preempting(37, *victims)
    world.api.errors["delete", "one"] = [ApiError(ApiStatus(403, "Forbidden", "no"))]
    world.api.gate.set()
    await world.scheduler.close()
    assert world.api.named("delete") == []
    assert world.where() == {"unschedulable": 1}
    await asyncio.sleep(1)
    assert world.where() == {"active": 1}
    [event] = [event for event in world.events if event.regarding.name == "p"]
    room = "found a potential placement for pod on node a, preempting 2 victims"
    assert event.note == f"0/1 nodes are available: 1 Insufficient cpu. preemption: {room}"


@pytest.mark.parametrize(("minor", "deleted"), [(34, ["going"]), (35, []), (37, [])])
@in_event_loop
async def test_a_victim_that_is_being_deleted_is_left_alone_from_1_35_on(minor: int, deleted: list[str]) -> None:
    going = make_pod("going", "a", requests=CPU)
    metadata = msgspec.structs.replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    world = preempting(minor, msgspec.structs.replace(going, metadata=metadata))
    world.api.gate.set()
    await world.scheduler.close()
    assert world.api.named("delete") == deleted
    assert try_again(world) == ["p"]
    await world.scheduler.close()


@in_event_loop
async def test_lower_nominations_for_the_node_are_taken_back_before_the_victims_go() -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(37))
    victim, lower = make_pod("victim", "a", requests=CPU), make_pod("lower", requests=CPU, nominated="a")
    world.create(victim, lower, important("p"))
    assert world.attempt() == "p"
    await world.scheduler.close()
    written = [(verb, name) for verb, name, _ in world.api.written if name != "p"]
    assert written == [("patch", "lower"), ("patch", "victim"), ("delete", "victim")]


@in_event_loop
async def test_a_lower_nomination_that_is_still_on_its_way_is_taken_back() -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(37))
    victim, lower = make_pod("victim", "a", requests=CPU), important("lower")
    world.create(victim, lower)
    world.api.slow, world.api.gate = {"lower"}, asyncio.Event()
    assert world.attempt() == "lower"
    await turns()
    higher = important("higher")
    world.create(msgspec.structs.replace(higher, spec=msgspec.structs.replace(higher.spec, priority=200)))
    assert world.attempt() == "higher"
    await turns()
    world.api.gate.set()
    await world.scheduler.close()
    nominated = [patch["status"]["nominatedNodeName"] for verb, name, patch in world.api.written if name == "lower"]
    assert nominated == ["a", None]


@in_event_loop
async def test_a_lower_nomination_that_waits_to_be_written_is_not_written_after_it_was_taken_back() -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(37))
    others = [make_pod(f"other{number}", requests={"cpu": "100"}) for number in range(MOST_REPORTS_AT_ONCE)]
    world.api.slow, world.api.gate = {pod.metadata.name for pod in others}, asyncio.Event()
    world.create(make_pod("victim", "a", requests=CPU), *others)
    world.attempt_all()
    world.create(important("lower"))
    assert world.attempt() == "lower"
    await turns()
    higher = important("higher")
    world.create(msgspec.structs.replace(higher, spec=msgspec.structs.replace(higher.spec, priority=200)))
    assert world.attempt() == "higher"
    await turns()
    world.api.gate.set()
    await world.scheduler.close()
    statuses = [patch["status"] for verb, name, patch in world.api.written if name == "lower"]
    assert [status["nominatedNodeName"] for status in statuses if "nominatedNodeName" in status] == [None]
    assert world.queue.nominator.node_of == {"uid-of-higher": "a"}


@pytest.mark.parametrize(("node_name", "patched"), [("a", {"p", "lower"}), ("b", {"p"})])
@in_event_loop
async def test_until_1_32_a_nomination_is_taken_back_if_it_is_for_the_node_after_the_evictions(
    node_name: str, patched: set[str]
) -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(32))
    victim, lower = make_pod("victim", "a", requests=CPU), make_pod("lower", requests=CPU, nominated="a")
    world.api.slow, world.api.gate = {"victim"}, asyncio.Event()
    world.create(victim, lower, important("p"))
    assert world.attempt() == "p"
    await turns()
    later = msgspec.structs.replace(lower.metadata, resource_version="2")
    status = msgspec.structs.replace(lower.status, nominated_node_name=node_name)
    world.create(msgspec.structs.replace(lower, metadata=later, status=status))
    world.api.gate.set()
    await world.scheduler.close()
    patches = [(name, patch["status"]) for verb, name, patch in world.api.written if verb == "patch"]
    assert {name for name, status in patches if "nominatedNodeName" in status} == patched


class Slow(Permit, PreBind):
    """Makes pods that are not important wait in Permit, or in PreBind."""

    name: ClassVar[str] = "Slow"

    def __init__(self, point: str, *, ignores_cancellation: bool = False) -> None:
        super().__init__(None, SchedulerWorld().handle)
        self.point = point
        self.ignores_cancellation = ignores_cancellation

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return (Status(Code.WAIT), 60.0) if self.point == "Permit" and not pod.spec.priority else (None, 0.0)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if self.point == "PreBind" and not pod.spec.priority:
            with suppress(asyncio.CancelledError) if self.ignores_cancellation else nullcontext():
                await asyncio.Event().wait()
        return None


class Own(DefaultPreemption):
    """Preempts under a name of its own."""

    name: ClassVar[str] = "Own"


async def waiting_victim(
    minor: int, slow: Slow, turns_after: int = 20, preempts: type[DefaultPreemption] = DefaultPreemption
) -> tuple[SchedulerWorld, Pod]:
    """A world in which the important pod p preempts one whose binding waits."""
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor))
    victim = make_pod("victim", requests=CPU)
    profile = world.engine.profiles.of(whole(victim))
    profile.permit, profile.pre_bind = (slow,), (slow,)
    profile.post_filter = (preempts(DefaultPreemptionArgs(), world.handle),)
    world.create(victim)
    assert world.attempt() == "victim"
    await turns()
    world.create(important("p"))
    assert world.attempt() == "p"
    await turns(turns_after)
    return world, victim


IN_MEMORY = " (in kube-scheduler memory)."


@pytest.mark.parametrize(
    ("minor", "reason", "note", "queue"),
    [
        (35, "Unschedulable", "0/1 nodes are available: 1 preempted.", "unschedulable"),
        (36, "SchedulerError", "waiting on permit for pod: preempted", "backoff"),
        (37, "SchedulerError", "waiting on permit for pod: preempted", "backoff"),
    ],
)
@in_event_loop
async def test_a_victim_that_waits_in_permit_goes_back_to_the_queue_from_1_36_on(
    minor: int, reason: str, note: str, queue: str
) -> None:
    world, victim = await waiting_victim(minor, Slow("Permit"))
    assert (world.place_of(victim), world.api.named("delete")) == ("", [])
    failure, preempted = sorted(
        (event for event in world.events if event.regarding.name == "victim"), key=lambda event: event.reason
    )
    assert failure.note == note
    assert preempted.note == f"Preempted by pod {important('p').metadata.uid} on node a" + IN_MEMORY * (minor > 35)
    statuses = [patch["status"] for _, name, patch in world.api.written if name == "victim"]
    assert statuses[-1]["conditions"][0]["reason"] == reason
    [entry] = [entry for entry in world.queue.entries() if entry.info.key == "default/victim"]
    assert entry.queue == queue
    await world.scheduler.close()


@pytest.mark.parametrize("ignores_cancellation", [False, True])
@in_event_loop
async def test_a_victim_in_pre_bind_goes_back_to_the_queue_from_1_36_on(ignores_cancellation: bool) -> None:
    world, victim = await waiting_victim(36, Slow("PreBind", ignores_cancellation=ignores_cancellation))
    assert (world.place_of(victim), world.api.named("delete"), world.api.named("bind")) == ("", [], [])
    notes = {event.reason: event.note for event in world.events if event.regarding.name == "victim"}
    running = "" if ignores_cancellation else 'running PreBind plugin "Slow": '
    assert notes["FailedScheduling"] == f"{running}preempted by DefaultPreemption"
    assert notes["Preempted"].endswith(IN_MEMORY)
    [entry] = [entry for entry in world.queue.entries() if entry.info.key == "default/victim"]
    assert entry.queue == "backoff"
    await world.scheduler.close()


@in_event_loop
async def test_a_victim_that_waits_in_permit_is_rejected_under_the_name_of_the_plugin_that_chose_its_node() -> None:
    world, _ = await waiting_victim(35, Slow("Permit"), preempts=Own)
    [entry] = [entry for entry in world.queue.entries() if entry.info.key == "default/victim"]
    assert entry.info.unschedulable_plugins == {"Own"}
    await world.scheduler.close()


@in_event_loop
async def test_a_victim_in_pre_bind_fails_with_the_name_of_the_plugin_that_chose_its_node() -> None:
    world, _ = await waiting_victim(36, Slow("PreBind"), preempts=Own)
    [failure] = [event for event in world.events if event.reason == "FailedScheduling" and event.regarding.name != "p"]
    assert failure.note == 'running PreBind plugin "Slow": preempted by Own'
    await world.scheduler.close()


@in_event_loop
async def test_a_victim_in_pre_bind_is_deleted_until_1_35() -> None:
    world, victim = await waiting_victim(35, Slow("PreBind"))
    assert world.api.named("delete") == ["victim"]
    world.delete(victim)
    await world.scheduler.abandon()


@pytest.mark.parametrize("point", ["Permit", "PreBind"])
@in_event_loop
async def test_a_pod_whose_last_victim_went_back_to_the_queue_is_tried_at_once_from_1_37_on(point: str) -> None:
    world, _ = await waiting_victim(37, Slow(point))
    assert world.attempt_all() == ["p"]
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]


@pytest.mark.parametrize("point", ["Permit", "PreBind"])
@in_event_loop
async def test_a_victim_that_went_back_to_the_queue_is_not_deleted_as_its_preemptor_is_tried_at_once(
    point: str,
) -> None:
    world, _ = await waiting_victim(37, Slow(point), turns_after=0)
    attempted = []
    for _ in range(20):
        attempted += world.attempt_all()
        await turns(1)
    await world.scheduler.close()
    assert (attempted, world.api.named("delete"), world.api.named("bind")) == (["p"], [], ["p"])

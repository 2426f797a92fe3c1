"""The loop: what becomes of a pod that is popped, and what it leaves behind."""

import asyncio
import gc
import logging
from typing import Any, ClassVar

import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Permit, PostBind, Reserve
from extender_service.framework.status import Code, Status, unschedulable
from extender_service.kube.api_errors import ApiError, ApiStatus, UnreachableError
from extender_service.kube.types.core import (
    Affinity,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodStatus,
    ResourceList,
    SelectorRequirement,
)
from extender_service.scheduler.failure_reports import MOST_REPORTS_AT_ONCE
from extender_service.scheduler.look_budget import MOST_LOOKS_A_TURN
from extender_service.scheduling.binding_cycle import BindingCycle
from extender_service.scheduling.confirmations import CONFIRM_SECONDS
from tests.support.clusters.queue_worlds import NODE_ADD
from tests.support.clusters.scheduler_world import SchedulerWorld, turns, whole
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.stub_plugins import Stub
from tests.support.virtual_time import in_virtual_time

CPU: ResourceList = {"cpu": "4"}
SMALL: ResourceList = {"cpu": "1", "pods": "10"}


def important(name: str) -> Pod:
    pod = make_pod(name, requests=CPU)
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=100))


def deleted(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, metadata=metadata)


def being_preempted(pod: Pod) -> Pod:
    condition = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler")
    return msgspec.structs.replace(deleted(pod), status=PodStatus(conditions=(condition,)))


class Late(Permit, Reserve):
    """Makes pods wait in Permit, or refuses them there."""

    name: ClassVar[str] = "Late"
    refuses = False

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return (unschedulable("not now"), 0.0) if self.refuses else (Status(Code.WAIT), 60.0)


def late(world_of: Any = SchedulerWorld) -> tuple[SchedulerWorld, Late]:
    plugin = Late(None, SchedulerWorld().handle)
    return world_of(make_node("a"), plugins={"reserve": [(plugin, 0)], "permit": [(plugin, 0)]}), plugin


@in_event_loop
async def test_a_pod_is_bound_and_users_see_it() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.create(pod)
    world.attempt()
    assert world.place_of(pod) == "a"
    await world.scheduler.close()
    assert world.api.written == [("bind", "p", ("uid-of-p", "a"))]
    [event] = world.events
    assert (event.reason, event.note) == ("Scheduled", "Successfully assigned default/p to a")
    assert event.controller == "default-scheduler"  # the pod's profile
    world.show_bound()
    assert world.where() == {}


@in_event_loop
async def test_a_pod_that_fits_nowhere_waits_with_a_condition_that_says_why() -> None:
    world, pod = SchedulerWorld(make_node("a", {"cpu": "1", "pods": "10"})), make_pod("p", requests=CPU)
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert world.where() == {"unschedulable": 1}
    [(_, _, patch)] = world.api.written
    text = (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )
    assert patch["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": text,
            "lastProbeTime": None,
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }
    ]
    [event] = world.events
    assert (event.type, event.reason, event.note) == ("Warning", "FailedScheduling", text)


@in_event_loop
async def test_a_node_that_comes_wakes_the_pod_that_fits_there_and_not_the_one_that_does_not() -> None:
    world = SchedulerWorld(make_node("a", {"cpu": "1", "pods": "10"}))
    world.create(make_pod("small", requests=CPU), make_pod("huge", requests={"cpu": "100"}))
    world.attempt_all()
    world.clock.pass_seconds(60)
    world.node_watch.apply(make_node("b"))
    assert world.attempt_all() == ["small"]
    await world.scheduler.close()


@in_event_loop
async def test_a_slow_binding_delays_no_other_pod() -> None:
    world = SchedulerWorld(make_node("a"))
    world.api.slow, world.api.gate = {"slow"}, asyncio.Event()
    world.create(make_pod("slow"), make_pod("other"))
    world.attempt_all()
    await turns()
    assert world.api.named("bind") == ["other"]
    world.api.gate.set()
    await world.scheduler.close()
    assert world.api.named("bind") == ["other", "slow"]


@in_event_loop
async def test_a_failure_that_is_written_late_never_hides_the_binding_after_it() -> None:
    world = SchedulerWorld(make_node("small", SMALL))
    world.api.errors["patch", "p"] = [ApiError(ApiStatus(500, "InternalError", "etcd is tired"))]
    world.create(make_pod("p", requests=CPU))
    world.attempt()
    await turns()  # the patch waits for its second try
    world.clock.pass_seconds(60)
    world.node_watch.apply(make_node("a"))
    assert world.attempt() == "p"
    await world.scheduler.close()
    assert [verb for verb, _, _ in world.api.written] == ["patch", "bind"]


@in_event_loop
async def test_a_failure_that_is_not_written_yet_is_dropped_once_the_pod_has_a_node() -> None:
    world = SchedulerWorld(make_node("small", SMALL))
    others = [make_pod(f"other{number}", requests=CPU) for number in range(MOST_REPORTS_AT_ONCE)]
    world.api.slow, world.api.gate = {pod.metadata.name for pod in others}, asyncio.Event()
    world.create(*others)
    world.attempt_all()
    await turns()  # all others are being written
    world.create(make_pod("last", requests={"cpu": "2"}))
    world.attempt_all()
    world.clock.pass_seconds(60)
    world.node_watch.apply(make_node("a", {"cpu": "2", "pods": "10"}))
    world.attempt_all()
    await turns()
    assert world.api.named("bind") == ["last"]
    world.api.gate.set()
    await world.scheduler.close()
    assert sorted(world.api.named("patch")) == sorted(world.api.slow)


@in_event_loop
async def test_a_binding_that_fails_frees_the_room_and_the_pod_is_tried_again() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.api.errors["bind", "p"] = [ApiError(ApiStatus(422, "Invalid", "the webhook says no"))]
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert world.place_of(pod) == ""
    assert world.where() == {"backoff": 1}
    [event] = world.events
    assert (event.reason, event.note) == (
        "FailedScheduling",
        'running Bind plugin "DefaultBinder": the webhook says no',
    )
    assert world.api.written[0][2]["status"]["conditions"][0]["reason"] == "SchedulerError"
    world.clock.pass_seconds(2)
    world.queue.flush_backoff_completed()
    assert world.attempt() == "p"
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]


@pytest.mark.parametrize("minor", [31, 32, 37])
@in_event_loop
async def test_a_binding_that_fails_wakes_those_that_wait_for_its_room(minor: int) -> None:
    world, pod = SchedulerWorld(make_node("a"), rules=rules_of(minor)), make_pod("p", requests={"cpu": "4"})
    world.api.errors["bind", "p"] = [ApiError(ApiStatus(422, "Invalid", "the webhook says no"))]
    world.create(pod, make_pod("other", requests={"cpu": "4"}))
    assert world.attempt_all() == ["p", "other"]
    world.clock.pass_seconds(60)
    assert world.where() == {"unschedulable": 1}
    await world.scheduler.close()
    assert world.where() == {"active": 1, "backoff": 1}


@pytest.mark.parametrize("uses_hints", [False, True])
@in_event_loop
async def test_the_failure_of_a_pod_that_was_made_again_leaves_the_new_pod_alone(uses_hints: bool) -> None:
    world = SchedulerWorld(make_node("a"), uses_hints=uses_hints)
    world.api.slow, world.api.gate = {"p"}, asyncio.Event()
    world.create(make_pod("p"))
    world.attempt()
    await turns()  # its binding is under way
    world.delete(make_pod("p"))
    world.create(make_pod("p", uid="another"))
    world.attempt()
    await turns()  # so is that of the new pod, behind it
    world.api.errors["bind", "p"] = [ApiError(ApiStatus(409, "Conflict", "another UID"))]
    world.api.gate.set()
    await world.scheduler.close()
    assert world.where() == {}
    assert not list(world.queue._in_flight)
    assert world.queue.nominator.node_of == {}
    assert world.api.named("bind") == ["p"]


@pytest.mark.parametrize(("minor", "notes"), [(35, ["FailedScheduling"]), (36, []), (37, [])])
@in_event_loop
async def test_the_failure_of_a_pod_that_was_made_again_has_no_event_from_1_36_on(minor: int, notes: list[str]) -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor))
    world.api.slow, world.api.gate = {"p"}, asyncio.Event()
    world.api.errors["bind", "p"] = [ApiError(ApiStatus(409, "Conflict", "another UID"))]
    world.create(make_pod("p"))
    world.attempt()
    await turns()  # its binding is under way
    world.delete(make_pod("p"))
    world.create(make_pod("p", uid="another"))
    world.api.gate.set()
    await world.scheduler.close()
    assert world.notes(make_pod("p")) == notes
    assert world.where() == {"active": 1}


@in_event_loop
async def test_a_pod_whose_binding_was_applied_though_its_answer_was_lost_is_not_tried_again() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")

    async def lost(namespace: str, name: str, uid: str, node_name: str) -> None:
        world.api.pods[namespace, name] = make_pod("p", "a")
        raise UnreachableError("the connection was cut")

    world.api.bind_pod = lost  # type: ignore[method-assign]
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert world.place_of(pod) == "a"
    assert world.notes(pod) == ["Scheduled"]


@in_event_loop
async def test_a_pod_that_is_being_deleted_is_not_attempted() -> None:
    world, pod = SchedulerWorld(make_node("a")), deleted(make_pod("p"))
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert world.api.written == []
    assert [(event.note, event.controller) for event in world.events] == [
        ("skip schedule deleting pod: default/p", "default-scheduler")
    ]


@in_event_loop
async def test_an_important_pod_is_nominated_at_once_and_stays_in_flight_until_its_victims_are_deleted() -> None:
    world, victim, pod = SchedulerWorld(make_node("a")), make_pod("victim", "a", requests=CPU), important("p")
    world.create(victim, pod)
    world.api.slow, world.api.gate = {"victim"}, asyncio.Event()
    world.attempt()
    await turns()
    assert world.where() == {}
    assert world.queue.nominator.node_of == {pod.metadata.uid: "a"}
    world.api.gate.set()
    await world.scheduler.close()
    assert [(verb, name) for verb, name, _ in world.api.written] == [
        ("patch", "victim"),
        ("delete", "victim"),
        ("patch", "p"),
    ]
    condition = world.api.written[0][2]["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")
    assert world.api.written[2][2]["status"]["nominatedNodeName"] == "a"
    assert world.notes(victim) == ["Preempted"]
    assert {event.controller for event in world.events} == {"default-scheduler"}
    assert world.where() == {"unschedulable": 1}
    world.delete(victim)
    world.clock.pass_seconds(10)
    world.queue.flush_backoff_completed()
    assert world.attempt() == "p"
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]


@in_event_loop
async def test_a_victim_that_ends_before_its_deletion_is_answered_wakes_the_pod_though_others_were_tried() -> None:
    world, victim, pod = SchedulerWorld(make_node("a")), make_pod("victim", "a", requests=CPU), important("p")
    world.create(victim, pod)
    world.api.slow, world.api.gate = {"victim"}, asyncio.Event()
    world.attempt()
    await turns()
    world.delete(victim)
    world.create(make_pod("other", requests={"cpu": "100"}))
    assert world.attempt() == "other"
    world.api.gate.set()
    await world.scheduler.close()
    world.clock.pass_seconds(2)
    world.queue.flush_backoff_completed()
    assert world.attempt() == "p"
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]


@pytest.mark.parametrize(("uses_hints", "queue"), [(False, "backoff"), (True, "unschedulable")])
@in_event_loop
async def test_a_pod_that_changes_while_its_victims_are_deleted_preempts_no_more(uses_hints: bool, queue: str) -> None:
    world = SchedulerWorld(make_node("a"), make_node("b"), uses_hints=uses_hints)
    world.api.slow, world.api.gate = {"low-a", "low-b"}, asyncio.Event()
    world.create(make_pod("low-a", "a", requests=CPU), make_pod("low-b", "b", requests=CPU))
    pod = important("high")
    world.create(pod)
    world.attempt()
    await turns()
    metadata = msgspec.structs.replace(pod.metadata, resource_version="2", labels={"team": "a"})
    world.create(msgspec.structs.replace(pod, metadata=metadata))
    assert world.attempt_all() == []
    world.api.gate.set()
    await world.scheduler.close()
    assert len(world.api.named("delete")) == 1
    assert world.where() == {queue: 1}  # it has changed: a reason to try again, unless hints say that no label helps
    [entry] = world.queue.entries()
    assert entry.info.pod.metadata.labels == {"team": "a"}


def full_of_reports(minor: int) -> SchedulerWorld:
    """A world in which so many failures are being written that no other is, until the gate opens.

    The node a has room for an important pod once the pod low-a is gone.
    """
    world = SchedulerWorld(make_node("a", {"cpu": "5", "pods": "200"}), rules=rules_of(minor))
    others = [make_pod(f"other{number}", requests={"cpu": "100"}) for number in range(MOST_REPORTS_AT_ONCE)]
    world.api.slow, world.api.gate = {pod.metadata.name for pod in others}, asyncio.Event()
    world.create(make_pod("low-a", "a", requests=CPU), make_pod("bystander", "a", requests={"cpu": "1"}), *others)
    world.attempt_all()
    return world


@pytest.mark.parametrize("minor", [31, 37])
@in_event_loop
async def test_a_pod_whose_nomination_waits_to_be_written_preempts_no_more(minor: int) -> None:
    world = full_of_reports(minor)
    world.create(important("high"))
    assert world.attempt() == "high"
    await turns()
    world.create(being_preempted(make_pod("low-a", "a", requests=CPU)))
    lower = make_pod("low-c", "c", requests=CPU)
    world.create(msgspec.structs.replace(lower, spec=msgspec.structs.replace(lower.spec, priority=-10)))
    world.node_watch.apply(make_node("c"))
    world.delete(make_pod("bystander", "a"))
    world.clock.pass_seconds(60)
    world.queue.flush_backoff_completed()
    assert "high" in world.attempt_all()
    await turns()
    assert world.api.named("delete") == ["low-a"]
    assert "high" not in world.api.named("patch")
    world.api.gate.set()
    await world.scheduler.close()
    [status] = [patch["status"] for verb, name, patch in world.api.written if (verb, name) == ("patch", "high")]
    assert status["nominatedNodeName"] == "a"
    assert "not eligible due to a terminating pod on the nominated node." in status["conditions"][0]["message"]


@pytest.mark.parametrize(("minor", "wakes"), [(32, False), (37, True)])
@in_event_loop
async def test_a_nomination_that_is_taken_back_before_it_was_written_wakes_others_from_1_33_on(
    minor: int, wakes: bool
) -> None:
    world = full_of_reports(minor)
    lower = important("lower")
    world.create(lower, important("other"))
    assert world.attempt_all() == ["lower", "other"]
    await turns()
    world.clock.pass_seconds(60)
    spec = msgspec.structs.replace(lower.spec, priority=200)
    world.create(msgspec.structs.replace(important("higher"), spec=spec))
    assert world.attempt() == "higher"
    await turns()
    assert ("other" in world.attempt_all()) == wakes
    await world.scheduler.abandon()


@in_event_loop
async def test_a_pod_whose_nomination_was_taken_back_before_it_was_written_preempts_elsewhere() -> None:
    world = full_of_reports(37)
    lower = important("lower")
    world.create(lower)
    assert world.attempt() == "lower"
    await turns()
    spec = msgspec.structs.replace(lower.spec, priority=200)
    world.create(msgspec.structs.replace(important("higher"), spec=spec))
    assert world.attempt() == "higher"
    await turns()
    world.create(being_preempted(make_pod("low-a", "a", requests=CPU)))
    world.create(make_pod("low-c", "c", requests=CPU))
    world.node_watch.apply(make_node("c"))
    world.clock.pass_seconds(60)
    world.queue.flush_backoff_completed()
    assert "lower" in world.attempt_all()
    await turns()
    assert world.api.named("delete") == ["low-a", "low-c"]
    await world.scheduler.abandon()


@in_event_loop
async def test_a_nomination_that_is_taken_back_while_it_waits_for_an_earlier_text_counts_no_more() -> None:
    world = SchedulerWorld(make_node("a", {"cpu": "1"}), rules=rules_of(37))
    world.api.slow, world.api.gate = {"lower"}, asyncio.Event()
    lower = important("lower")
    world.create(lower)
    assert world.attempt() == "lower"
    await turns()
    world.create(make_pod("low-a", "a", requests=CPU))
    world.clock.pass_seconds(60)
    world.node_watch.apply(make_node("a"))
    assert world.attempt() == "lower"
    await turns()
    spec = msgspec.structs.replace(lower.spec, priority=200)
    world.create(msgspec.structs.replace(important("higher"), spec=spec))
    assert world.attempt() == "higher"
    await turns()
    assert dict(world.queue.nominator.on_nodes()) == {"uid-of-higher": "a"}
    world.create(being_preempted(make_pod("low-a", "a", requests=CPU)), make_pod("low-c", "c", requests=CPU))
    world.clock.pass_seconds(60)
    world.node_watch.apply(make_node("c"))
    assert "lower" in world.attempt_all()
    await turns()
    assert world.api.named("delete") == ["low-a", "low-c"]
    await world.scheduler.abandon()


@in_event_loop
async def test_a_pod_that_waits_before_its_binding_is_nominated_though_its_nomination_was_not_written_before() -> None:
    world = full_of_reports(37)
    world.engine.profiles.of(whole(important("high"))).permit = (Late(None, world.handle),)
    world.create(important("high"))
    assert world.attempt() == "high"
    await turns()
    world.delete(make_pod("low-a", "a"))
    world.clock.pass_seconds(60)
    world.queue.flush_backoff_completed()
    assert "high" in world.attempt_all()
    await turns()
    [status] = [patch["status"] for verb, name, patch in world.api.written if (verb, name) == ("patch", "high")]
    assert status == {"nominatedNodeName": "a"}
    await world.scheduler.abandon()


@in_event_loop
async def test_a_bug_that_one_pod_meets_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("unlucky")
    decide = world.engine.decide

    def broken(question: Any) -> Any:
        if question.pod.metadata.name == "unlucky":
            raise ZeroDivisionError("a bug")
        return decide(question)

    monkeypatch.setattr(world.engine, "decide", broken)
    world.create(pod, make_pod("other"))
    assert world.attempt_all() == ["unlucky", "other"]
    await world.scheduler.close()
    assert world.api.named("bind") == ["other"]
    assert [event.note for event in world.events if event.regarding.name == "unlucky"] == ["ZeroDivisionError: a bug"]
    assert world.where() == {"backoff": 1}


@in_event_loop
async def test_a_bug_that_a_binding_meets_costs_the_pod_neither_its_turn_nor_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")

    async def buggy(_cycle: BindingCycle) -> None:
        raise IndexError("a bug")

    world.create(pod)
    with monkeypatch.context() as patched:
        patched.setattr(BindingCycle, "_wait_on_permit", buggy)
        world.attempt()
        await world.scheduler.close()
    assert (world.where(), world.place_of(pod)) == ({"backoff": 1}, "")
    assert world.events[0].note == "binding default/p to a: IndexError: a bug"


class Cancelling(PostBind):
    """Cancels the task of the binding, which asyncio then ends as cancelled once PostBind has run."""

    name: ClassVar[str] = "Cancelling"

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        binding = asyncio.current_task()
        assert binding is not None
        binding.cancel()


@in_virtual_time
async def test_a_pod_whose_binding_a_plugin_cancels_is_not_lost() -> None:
    world, pod = SchedulerWorld(make_node("a"), rules=rules_of(37)), make_pod("p")
    world.engine.profiles.of(whole(pod)).post_bind = (Cancelling(None, world.handle),)
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert (world.where(), world.place_of(pod), world.notes(pod)) == ({}, "a", ["Scheduled"])
    assert not list(world.queue._in_flight)


@in_event_loop
async def test_a_pod_that_another_scheduler_bound_elsewhere_fails_in_the_words_of_the_api_server() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.create(pod)
    world.attempt()
    world.api.pods["default", "p"] = make_pod("p", "b")
    await world.scheduler.close()
    [event] = world.events
    assert event.note == 'running Bind plugin "DefaultBinder": pod p is already assigned to node "b"'
    assert world.place_of(pod) == ""


@in_event_loop
async def test_a_bug_after_a_pod_was_bound_leaves_it_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    bind_pod = world.api.bind_pod

    async def buggy(namespace: str, name: str, uid: str, node_name: str) -> None:
        await bind_pod(namespace, name, uid, node_name)
        raise asyncio.InvalidStateError("a bug")

    async def without_guard(plugin: object, point: str, method: Any, *args: object) -> object:
        return await method(*args)

    monkeypatch.setattr(world.api, "bind_pod", buggy)
    monkeypatch.setattr("extender_service.scheduling.binding_cycle.awaited", without_guard)
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert (world.where(), world.place_of(pod)) == ({}, "a")
    assert world.notes(pod) == ["Scheduled"]


@in_event_loop
async def test_a_bug_that_preemption_meets_undoes_the_nomination(monkeypatch: pytest.MonkeyPatch) -> None:
    world = SchedulerWorld(make_node("a"))

    async def buggy(namespace: str, name: str, uid: str) -> None:
        raise IndexError("a bug")

    monkeypatch.setattr(world.api, "delete_pod", buggy)
    world.create(make_pod("low", "a", requests=CPU), important("high"))
    world.attempt()
    await world.scheduler.close()
    assert world.where() == {"unschedulable": 1}
    assert "preemption: IndexError: a bug" in world.events[-1].note
    assert not list(world.queue.nominator.on_nodes())


@in_event_loop
async def test_the_condition_of_a_victim_that_is_going_already_keeps_its_time() -> None:
    world, pod = SchedulerWorld(make_node("a")), important("p")
    world.create(being_preempted(make_pod("victim", "a", requests=CPU)), pod)
    world.attempt()
    await world.scheduler.close()
    [(_, name, patch), *_] = world.api.written
    [condition] = patch["status"]["conditions"]
    assert (name, condition["type"]) == ("victim", "DisruptionTarget")
    assert "lastTransitionTime" not in condition


@in_event_loop
async def test_a_less_important_pod_does_not_take_the_room_that_was_made_for_another() -> None:
    world, victim = SchedulerWorld(make_node("a")), make_pod("victim", "a", requests=CPU)
    world.create(victim, important("p"))
    world.attempt()
    await world.scheduler.close()
    world.delete(victim)
    world.create(make_pod("thief", requests=CPU))
    world.clock.pass_seconds(10)
    world.queue.flush_backoff_completed()
    assert set(world.attempt_all()) == {"p", "thief"}
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]


@in_event_loop
async def test_a_victim_that_cannot_be_deleted_undoes_the_nomination() -> None:
    world, victim, pod = SchedulerWorld(make_node("a")), make_pod("victim", "a", requests=CPU), important("p")
    world.api.errors["delete", "victim"] = [ApiError(ApiStatus(403, "Forbidden", "no"))]
    world.create(victim, pod)
    world.attempt()
    await world.scheduler.close()
    assert world.queue.nominator.node_of == {}
    assert world.notes(victim) == []
    [event] = [event for event in world.events if event.regarding.name == "p"]
    assert event.note == "0/1 nodes are available: 1 Insufficient cpu. preemption: no"
    assert world.where() == {"unschedulable": 1}


@pytest.mark.parametrize(
    ("verb", "refusal"),
    [
        (verb, refusal)
        for verb in ("patch", "delete")
        for refusal in (
            ApiStatus(404, "NotFound", 'pods "victim" not found'),
            ApiStatus(409, "Conflict", "the UID in the precondition is another one"),
            ApiStatus(422, "Invalid", 'Pod "victim" is invalid: metadata.uid: Invalid value: "a": field is immutable'),
        )
    ],
)
@in_event_loop
async def test_a_victim_that_is_gone_already_is_as_good_as_deleted(
    verb: str, refusal: ApiStatus, caplog: pytest.LogCaptureFixture
) -> None:
    world, victim, pod = SchedulerWorld(make_node("a")), make_pod("victim", "a", requests=CPU), important("p")
    world.api.errors[verb, "victim"] = [ApiError(refusal)]
    world.create(victim, pod)
    world.attempt()
    await world.scheduler.close()
    assert world.queue.nominator.node_of == {pod.metadata.uid: "a"}
    assert world.notes(victim) == []  # another one deleted it
    [event] = [event for event in world.events if event.regarding.name == "p"]
    assert event.note == "0/1 nodes are available: 1 Insufficient cpu."
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert world.api.named("delete") == []


@in_event_loop
async def test_a_nominated_node_is_tried_first_also_where_pre_filter_names_others() -> None:
    names_b = Stub("OnlyB", pre_filter={"b"})
    world = SchedulerWorld(make_node("a"), make_node("b"), plugins={"preFilter": [(names_b, 0)], "filter": []})
    world.create(make_pod("p", nominated="a"))
    world.attempt()
    assert world.place_of(make_pod("p")) == "a"
    await world.scheduler.close()


@in_event_loop
async def test_a_nominated_node_that_does_not_fit_leaves_the_choice_to_pre_filter() -> None:
    names_b = Stub("OnlyB", pre_filter={"b"}, rejects={"a": unschedulable("full")})
    world = SchedulerWorld(*map(make_node, "abc"), plugins={"preFilter": [(names_b, 0)], "filter": [(names_b, 0)]})
    world.create(make_pod("p", nominated="a"))
    world.attempt()
    assert world.place_of(make_pod("p")) == "b"
    await world.scheduler.close()


@in_event_loop
async def test_where_pre_filter_rejects_the_pod_the_nominated_node_is_not_tried() -> None:
    refuses = Stub("Refuses", pre_filter=unschedulable("never"))
    world = SchedulerWorld(make_node("a"), plugins={"preFilter": [(refuses, 0)]})
    world.create(make_pod("p", nominated="a"))
    world.attempt()
    assert world.place_of(make_pod("p")) == ""
    await world.scheduler.close()


@in_event_loop
async def test_a_pod_that_a_plugin_refuses_in_permit_waits_for_that_plugin() -> None:
    world, plugin = late()
    plugin.refuses = True
    pod = make_pod("p")
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert world.place_of(pod) == ""
    [event] = world.events
    assert event.note == "0/1 nodes are available: 1 not now."
    assert world.where() == {"unschedulable": 1}


@in_event_loop
async def test_a_pod_that_is_deleted_while_it_waits_in_permit_gives_its_place_up() -> None:
    world, _ = late()
    pod = make_pod("p")
    world.create(pod)
    world.attempt()
    await turns()
    assert world.handle.waiting_pods.get(pod.metadata.uid) is not None
    world.delete(pod)
    await world.scheduler.close()
    assert world.place_of(pod) == ""
    assert len(world.handle.waiting_pods) == 0
    assert world.api.named("bind") == []
    assert world.where() == {}


class Gang(Late):
    """Makes pods wait, and is asked about new nodes, of which none helps. `asked` counts that by turn of the loop."""

    retry_on = (NODE_ADD,)

    def __init__(self, arguments: None, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self.asked = [0]

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        self.asked[-1] += 1
        return QueueingHint.SKIP


@in_event_loop
async def test_pods_that_time_out_at_once_look_at_what_they_missed_in_turns() -> None:
    pods, events = 12, 3000
    plugin = Gang(None, SchedulerWorld().handle)
    plugins = {"reserve": [(plugin, 0)], "permit": [(plugin, 0)]}
    world = SchedulerWorld(make_node("a"), plugins=plugins, rules=rules_of(34))
    world.create(*[make_pod(f"p{number}") for number in range(pods)])
    world.attempt_all()
    await turns()
    for number in range(events):
        world.queue.move_all_to_active_or_backoff(NODE_ADD, None, f"n{number}")
    for waiting in world.handle.waiting_pods:
        waiting.time_out()
    while world.scheduler.unfinished_count:
        plugin.asked.append(0)
        await asyncio.sleep(0)
    assert world.where() == {"unschedulable": pods}
    assert sum(plugin.asked) == pods * events
    assert max(plugin.asked) < MOST_LOOKS_A_TURN + events


@in_event_loop
async def test_a_pod_of_a_scheduler_without_a_profile_is_left_to_that_scheduler() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    other = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduler_name="other"))
    world.create(other)
    assert world.attempt() == ""


@pytest.mark.parametrize("count", [200])
@in_event_loop
async def test_the_loop_places_all_pods_and_ends_when_the_queue_is_closed(count: int) -> None:
    world = SchedulerWorld(*[make_node(f"n{number}", {"cpu": "64", "pods": "110"}) for number in range(3)])
    running = asyncio.create_task(world.scheduler.run())
    world.create(*[make_pod(f"p{number}") for number in range(count)])
    while len(world.api.named("bind")) < count:
        await asyncio.sleep(0)
    world.queue.close()
    await running
    await world.scheduler.close()
    assert sorted(world.api.named("bind")) == sorted(f"p{number}" for number in range(count))


@in_event_loop
async def test_after_a_long_attempt_the_event_loop_is_free_for_a_while() -> None:
    takes = [3.0, 0.0]
    slept: list[float] = []
    slow = Stub("Slow", rejects=lambda: world.clock.pass_seconds(takes.pop(0)))
    world = SchedulerWorld(make_node("a"), plugins={"filter": [(slow, 0)]}, decision_seconds=4)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    world.scheduler._sleep = sleep
    running = asyncio.create_task(world.scheduler.run())
    world.create(make_pod("slow"), make_pod("next"))
    while len(world.api.named("bind")) < 2:
        await asyncio.sleep(0)
    world.queue.close()
    await running
    await world.scheduler.close()
    assert slept.count(0.75) == 1


@in_event_loop
async def test_thousands_of_pods_that_wait_for_the_same_plugins_share_the_sets_of_them() -> None:
    world = SchedulerWorld(make_node("small", SMALL))
    world.create(make_pod("p", requests=CPU), make_pod("q", requests=CPU))
    world.attempt_all()
    await world.scheduler.close()
    first, second = (entry.info for entry in world.queue.entries())
    assert first.unschedulable_plugins == {"NodeResourcesFit"}
    assert first.unschedulable_plugins is second.unschedulable_plugins
    assert first.pending_plugins is second.pending_plugins


@in_event_loop
async def test_what_is_under_way_at_the_end_of_the_process_ends_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SchedulerWorld(make_node("a", {"cpu": "8", "pods": "10"}), make_node("small", SMALL))
    world.api.slow, world.api.gate = {"bound", "refused", "low"}, asyncio.Event()
    world.create(make_pod("low", "a", requests=CPU), make_pod("bound", requests=CPU))
    world.attempt()
    world.create(important("high"), make_pod("refused", requests={"cpu": "100"}))
    world.attempt_all()
    await turns()
    events = len(world.events)
    await world.scheduler.abandon()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert (world.scheduler.unfinished_count, len(world.events), world.api.written) == (0, events, [])
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("reading_turns", range(8))
@in_event_loop
async def test_a_binding_that_fails_while_the_process_ends_leaves_no_traceback(
    reading_turns: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(_namespace: str, _name: str) -> None:
        await turns(reading_turns)

    world = SchedulerWorld(make_node("a"))
    monkeypatch.setattr(world.api, "get_pod", read)
    bindings, failures = asyncio.Event(), asyncio.Event()
    world.api.slow, world.api.gate = {"p", "huge"}, bindings
    world.api.errors["bind", "p"] = [ApiError(ApiStatus(409, "Conflict", "bound"))]
    world.create(make_pod("p"))
    world.attempt()
    await turns()
    world.api.gate = failures
    world.create(make_pod("huge", requests={"cpu": "100"}))
    world.attempt()
    await turns()
    bindings.set()
    await world.scheduler.abandon()
    gc.collect()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("is_applied", [False, True])
@in_event_loop
async def test_a_pod_whose_binding_and_reading_fail_is_not_lost(
    is_applied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extender_service.scheduling.confirmations.RETRY_SECONDS", 0.01)
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    get_pod, reads = world.api.get_pod, []

    async def down(namespace: str, name: str, *_: str) -> Pod | None:
        reads.append(name)
        if is_applied:
            world.api.pods[namespace, name] = make_pod("p", "a")
        raise UnreachableError("the API server restarts")

    with monkeypatch.context() as patched:
        patched.setattr(world.api, "get_pod", down)
        patched.setattr(world.api, "bind_pod", down)
        world.create(pod)
        world.attempt()
        while len(reads) < 4:
            await asyncio.sleep(0.01)
        world.clock.pass_seconds(60)
        world.queue.flush_backoff_completed()
        assert world.attempt_all() == []
        assert (world.place_of(pod), world.notes(pod)) == ("a", [])
    assert world.api.get_pod == get_pod
    await world.scheduler.close()
    if is_applied:
        assert (world.where(), world.place_of(pod), world.notes(pod)) == ({}, "a", ["Scheduled"])
    else:
        assert (world.where(), world.place_of(pod), world.notes(pod)) == ({"backoff": 1}, "", ["FailedScheduling"])


@in_virtual_time
async def test_a_pod_whose_binding_a_restored_backup_takes_back_is_queued_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SchedulerWorld(make_node("a", SMALL))
    pod, other = (make_pod(name, requests={"cpu": "1"}) for name in "pq")
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    world.create(other)
    world.attempt()
    assert world.where() == {"unschedulable": 1}
    world.api.pods["default", "p"] = pod  # the watch has not shown the binding by then
    await asyncio.sleep(CONFIRM_SECONDS + 1)
    assert world.place_of(pod) == ""
    assert world.where() == {"active": 1, "backoff": 1}
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "a pod that was to be bound is not"
    ]


@in_virtual_time
async def test_a_nomination_that_a_restored_backup_takes_back_with_a_binding_gives_way_to_one_by_another_program() -> (
    None
):
    world, pod = SchedulerWorld(make_node("a", SMALL)), make_pod("p", requests={"cpu": "1"})
    world.create(pod)
    world.attempt()
    world.pending.nominate(pod, "a")
    await world.scheduler.close()
    world.api.pods["default", "p"] = pod
    await asyncio.sleep(CONFIRM_SECONDS + 1)
    metadata = msgspec.structs.replace(pod.metadata, resource_version="2")
    world.create(msgspec.structs.replace(pod, metadata=metadata, status=PodStatus(nominated_node_name="b")))
    [entry] = world.queue.entries()
    assert entry.info.pod.status.nominated_node_name == "b"


@in_virtual_time
async def test_a_pod_that_has_ended_before_the_watch_shows_its_binding_leaves_its_room_to_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SchedulerWorld(make_node("a", SMALL))
    pod, other = (make_pod(name, requests={"cpu": "1"}) for name in "pq")
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    world.create(other)
    world.attempt()
    world.api.pods["default", "p"] = make_pod("p", "a", phase="Succeeded")
    await asyncio.sleep(CONFIRM_SECONDS + 1)
    assert world.place_of(pod) == ""
    assert world.where() == {"backoff": 1}
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize("minor", [31, 34, 35])
@in_event_loop
async def test_a_pod_that_a_list_leaves_out_before_the_watch_shows_its_binding_leaves_its_room_to_others(
    minor: int,
) -> None:
    world = SchedulerWorld(make_node("a", SMALL), rules=rules_of(minor))
    pod, other = (make_pod(name, requests={"cpu": "1"}) for name in "pq")
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    world.create(other)
    world.attempt()
    assert world.where() == {"unschedulable": 1}
    world.pod_watch.remove(("default", "p"))
    assert world.place_of(pod) == ""
    assert world.where() == {"backoff": 1}


@in_virtual_time
async def test_a_pod_that_has_ended_before_it_was_known_to_be_bound_leaves_its_room_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = SchedulerWorld(make_node("a", SMALL))
    get_pod, errors = world.api.get_pod, [UnreachableError("the API server restarts")]

    async def lost(namespace: str, name: str, uid: str, node_name: str) -> None:
        world.api.pods[namespace, name] = make_pod("p", "a", phase="Succeeded")
        raise UnreachableError("the connection was cut")

    async def late(namespace: str, name: str) -> Pod | None:
        if errors:
            raise errors.pop()
        return await get_pod(namespace, name)

    monkeypatch.setattr(world.api, "bind_pod", lost)
    monkeypatch.setattr(world.api, "get_pod", late)
    pod, other = (make_pod(name, requests={"cpu": "1"}) for name in "pq")
    world.create(pod, other)
    assert world.attempt_all() == ["p", "q"]
    assert world.where() == {"unschedulable": 1}
    await world.scheduler.close()
    assert (world.place_of(pod), world.notes(pod)) == ("", ["Scheduled"])
    assert world.where() == {"backoff": 1}


@in_event_loop
async def test_a_binding_that_failed_is_not_reported_as_done_where_another_scheduler_has_bound_the_pod_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, pod, points = SchedulerWorld(make_node("a")), make_pod("p"), []

    def refuse() -> None:
        asyncio.get_running_loop().call_soon(world.create, make_pod("p", "a"))
        raise CycleError("the lease was renewed 35 s ago")

    monkeypatch.setattr(world.engine.binder, "_may_bind", refuse)
    monkeypatch.setattr(BindingCycle, "unreserve", lambda cycle: points.append("Unreserve"))
    monkeypatch.setattr(BindingCycle, "run_post_bind", lambda cycle: points.append("PostBind"))
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert (world.where(), world.place_of(pod)) == ({}, "a")
    assert points == ["Unreserve"]
    assert world.notes(pod) == ["FailedScheduling"]


@in_event_loop
async def test_a_pod_is_tried_again_when_the_pod_has_gone_whose_anti_affinity_kept_it_out() -> None:
    world, pod = SchedulerWorld(make_node("a", labels={"zone": "1"}), rules=rules_of(37)), make_pod("p")
    terms = tuple(
        PodAffinityTerm("zone", LabelSelector(match_expressions=requirements), *namespaces)
        for requirements in ((), (SelectorRequirement("app", "NotIn", ("db", "web")),))
        for namespaces in ((), (("default",),), ((), LabelSelector()))
    )
    for number, term in enumerate(terms):
        affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
        apart = make_pod(f"apart-{number}", "a")
        apart = msgspec.structs.replace(apart, spec=msgspec.structs.replace(apart.spec, affinity=affinity))
        world.create(apart, pod)
        world.attempt()
        assert world.where() == {"unschedulable": 1}
        world.delete(apart)
        assert world.where() == {"backoff": 1}
        world.delete(pod)


@in_event_loop
async def test_the_log_has_no_more_of_why_a_pod_failed_than_its_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "extender_service")
    world = SchedulerWorld(make_node("a"))
    resources: ResourceList = {f"example.com/{'x' * 50}-{number}": "1" for number in range(100)}
    world.create(make_pod("greedy", requests=resources))
    assert world.attempt() == "greedy"
    [record] = [record for record in caplog.records if record.getMessage() == "cannot schedule a pod"]
    why = vars(record)["why"]
    assert why.startswith("0/1 nodes are available: 1 Insufficient example.com/x")
    assert len(why) == 1024
    await world.scheduler.close()
    [(_, _, patch)] = world.api.written
    assert len(patch["status"]["conditions"][0]["message"]) > 5000

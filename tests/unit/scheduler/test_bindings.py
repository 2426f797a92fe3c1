"""Bindings: what goes on while one is under way, and what follows when it fails, or is lost."""

import asyncio
import gc
import logging
from typing import Any, ClassVar

import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError
from extender_service.framework.interface import Bind, PostBind
from extender_service.framework.status import Code, Status
from extender_service.kube.api_errors import ApiError, ApiStatus, UnreachableError
from extender_service.kube.types.core import Pod, PodStatus, ResourceList
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduler.failure_reports import MOST_REPORTS_AT_ONCE
from extender_service.scheduling.binding_cycle import BindingCycle
from extender_service.scheduling.confirmations import CONFIRM_SECONDS
from tests.support.binding_plugins import Late
from tests.support.clusters.scheduler_world import SchedulerWorld, full_of_reports, important, turns, whole
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.virtual_time import in_virtual_time

CPU: ResourceList = {"cpu": "4"}
SMALL: ResourceList = {"cpu": "1", "pods": "10"}


def late() -> tuple[SchedulerWorld, Late]:
    """A world in which pods wait in Permit, and the plugin that lets them wait."""
    plugin = Late(None, SchedulerWorld().handle)
    return SchedulerWorld(make_node("a"), plugins={"reserve": [(plugin, 0)], "permit": [(plugin, 0)]}), plugin


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


class Clumsy(Bind):
    """Fails to bind pods, some only after they are bound."""

    name: ClassVar[str] = "Clumsy"

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        metadata = pod.metadata
        if not metadata.name.startswith("early"):
            await self.handle.pods.bind_pod(metadata.namespace, metadata.name, pod_uid(pod), node_name)
        if metadata.name.endswith("error"):
            return Status(Code.ERROR, ("a bug",))
        raise IndexError("a bug")


@pytest.mark.parametrize(
    ("name", "place", "where", "note"),
    [
        ("late", "a", {}, "Successfully assigned default/late to a"),
        ("late-error", "a", {}, "Successfully assigned default/late-error to a"),
        ("early", "", {"backoff": 1}, 'running Bind plugin "Clumsy": IndexError: a bug'),
        ("early-error", "", {"backoff": 1}, 'running Bind plugin "Clumsy": a bug'),
    ],
)
@in_event_loop
async def test_a_pod_that_a_plugin_has_bound_before_it_failed_is_not_tried_again(
    name: str, place: str, where: dict[str, int], note: str
) -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod(name)
    world.engine.profiles.of(whole(pod)).bind = (Clumsy(None, world.handle),)
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert (world.place_of(pod), world.where()) == (place, where)
    assert [event.note for event in world.events] == [note]


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
    world.pending.nominations.decide(pod, "a")
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


@pytest.mark.parametrize("is_deleted", [False, True])
@in_virtual_time
async def test_a_pod_that_has_ended_is_tried_again_only_once_a_restored_backup_has_brought_it_back(
    is_deleted: bool,
) -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    world.api.pods["default", "p"] = make_pod("p", "a", phase="Succeeded")
    if is_deleted:
        del world.api.pods["default", "p"]
    await asyncio.sleep(CONFIRM_SECONDS + 1)
    # What the watch shows now is older than the binding.
    metadata = msgspec.structs.replace(pod.metadata, resource_version="2", labels={"app": "web"})
    world.pod_watch.apply(whole(msgspec.structs.replace(pod, metadata=metadata)))
    assert world.where() == {}
    world.api.pods["default", "p"] = pod
    await asyncio.sleep(2 * CONFIRM_SECONDS)
    assert world.where() == {"active": 1}
    metadata = msgspec.structs.replace(metadata, resource_version="3")
    world.pod_watch.apply(whole(msgspec.structs.replace(pod, metadata=metadata)))
    [entry] = world.queue.entries()
    assert entry.info.pod.metadata.resource_version == "3"


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


@in_virtual_time
async def test_a_pod_that_a_restored_backup_takes_back_once_its_binding_was_shown_is_queued_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    await asyncio.sleep(CONFIRM_SECONDS + 1)
    world.pod_watch.apply(whole(make_pod("p", "a")))
    world.api.pods["default", "p"] = pod
    world.pod_watch.apply(whole(pod))

    async def hang(*_: object) -> None:
        await asyncio.Future()

    monkeypatch.setattr(world.api, "bind_pod", hang)
    world.attempt()
    await asyncio.sleep(CONFIRM_SECONDS)
    assert (world.where(), world.place_of(pod)) == ({}, "a")

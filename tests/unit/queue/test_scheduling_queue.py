"""What a scheduler sees of the queue. That it does as kube-scheduler's in every state, tests/lockstep shows."""

import asyncio
from typing import Any

import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import ASSIGNED_POD, NODE, POD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.events import POD_LABEL_CHANGE, POD_REQUEST_SCALED_DOWN, UNSCHEDULED_POD_UPDATE
from extender_service.framework.status import Status, unresolvable
from extender_service.kube.types.core import Pod, PodStatus
from extender_service.queue.interested_plugins import InterestedPlugins, Requeueing
from tests.support.clusters.queue_worlds import (
    GATE,
    NODE_ADD,
    NODE_HELPS_FIT,
    QueueWorld,
    changed,
    queue_pod,
    queues,
    release,
)
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_container

NODE_DELETE = ClusterEvent(NODE, ActionType.DELETE, "NodeDelete")


def skips(event: object, pod: object, old: object, new: object) -> QueueingHint:
    return QueueingHint.SKIP


def test_pods_come_by_priority_and_then_by_time() -> None:
    world = QueueWorld()
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        world.queue.add(queue_pod(name, priority=priority))
        world.clock.pass_seconds(1)
    assert world.popped() == ["b", "d", "a", "c"]
    assert world.queue.scheduling_cycle == 4


def test_a_rejected_pod_waits_for_an_event_that_can_help_and_for_the_end_of_its_backoff() -> None:
    world = QueueWorld(NODE_HELPS_FIT)
    world.reject("a", "Fit")
    assert world.summary == (0, 0, 1)
    world.queue.move_all_to_active_or_backoff(NODE_DELETE)
    assert world.summary == (0, 0, 1)
    world.queue.move_all_to_active_or_backoff(NODE_ADD)
    assert world.summary == (0, 1, 0)
    world.queue.flush_backoff_completed()
    assert world.popped() == []
    world.clock.pass_seconds(1)
    world.queue.flush_backoff_completed()
    assert world.popped() == ["a"]
    assert world.counts == {
        ("active", "PodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
    }


def test_an_event_asks_no_plugin_about_pods_that_others_rejected() -> None:
    asked = []

    def ask(event: object, pod: Pod, old: object, new: object) -> QueueingHint:
        asked.append(pod.metadata.name)
        return QueueingHint.SKIP

    world = QueueWorld((NODE_ADD, "Fit", ask), (NODE_ADD, "Ports", ask), uses_hints=True)
    for number in range(100):
        world.reject(f"other{number}", "Taints")
    world.reject("a", "Fit")
    checked = []

    def pre_check(pod: Pod) -> bool:
        checked.append(pod.metadata.name)
        return True

    world.queue.move_all_to_active_or_backoff(NODE_ADD, pre_check=pre_check)
    assert (asked, checked) == (["a"], ["a"])


def test_without_hints_a_pod_that_comes_back_after_any_event_backs_off() -> None:
    world = QueueWorld(NODE_HELPS_FIT)
    world.queue.add(queue_pod("a"))
    info = world.pop()
    world.queue.move_all_to_active_or_backoff(NODE_ADD)
    world.fail(info, "Taints")
    assert world.summary == (0, 1, 0)


def test_a_pod_that_changed_in_flight_and_is_held_is_in_no_queue_until_it_comes_back() -> None:
    world = QueueWorld()
    world.watched.add("default/a")
    pod = queue_pod("a")
    world.queue.add(pod)
    info = world.pop()
    latest = changed(pod, labels={"team": "x"})
    world.queue.update(pod, latest)
    assert world.summary == (1, 0, 0)
    world.queue.hold(pod, "n")
    assert world.summary == (0, 0, 0)
    assert [found.metadata.name for found in world.queue.nominated_pods_for_node("n")] == ["a"]
    info.pod = latest
    world.fail(info, "Fit")
    assert world.summary == (0, 0, 1)
    world.queue.release(pod, latest)
    assert world.summary == (0, 1, 0)  # it has changed, which may help


def test_a_pod_that_was_made_again_stays_queued_while_the_one_before_is_held() -> None:
    world = QueueWorld()
    pod = queue_pod("a")
    world.queue.add(pod)
    world.pop()
    world.queue.delete(pod)
    world.queue.add(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid="made-again")))
    world.queue.hold(pod, "n")
    assert world.pop().pod.metadata.uid == "made-again"


def test_with_hints_only_an_event_that_can_help_does_that() -> None:
    world = QueueWorld(NODE_HELPS_FIT, uses_hints=True)
    for name, plugin in (("a", "Taints"), ("b", "Fit")):
        world.queue.add(queue_pod(name))
        info = world.pop()
        world.queue.move_all_to_active_or_backoff(NODE_ADD)
        world.fail(info, plugin)
    assert world.summary == (0, 1, 1)


def test_a_pod_that_comes_back_late_looks_at_the_kinds_of_events_of_the_plugins_that_rejected_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def ask(event: object, pod: object, old: object, new: object) -> QueueingHint:
        asked.append(new)
        return QueueingHint.SKIP

    world = QueueWorld(
        (NODE_ADD, "Fit", queues), (NODE_DELETE, "Gang", ask), (POD_LABEL_CHANGE, "Gang", ask), uses_hints=True
    )
    looks = 0
    look = InterestedPlugins.requeueing

    def counted(*arguments: Any) -> Requeueing:
        nonlocal looks
        looks += 1
        return look(*arguments)

    monkeypatch.setattr(InterestedPlugins, "requeueing", counted)
    infos = []
    for number in range(10):
        world.queue.add(queue_pod(f"{number}"))
        infos.append(world.pop())
    for number in range(500):
        world.queue.move_all_to_active_or_backoff(NODE_ADD, None, f"node {number}")
        if number % 100 == 0:
            world.queue.move_all_to_active_or_backoff(NODE_DELETE, f"node {number}", None)
            world.queue.move_all_to_active_or_backoff(POD_LABEL_CHANGE, None, f"pod {number}")
    for info in infos:
        world.fail(info, "Gang")
    assert world.summary == (0, 0, 10)
    assert looks == 10 * 10
    once = [seen for number in range(0, 500, 100) for seen in (None, f"pod {number}")]
    assert asked == once * 10


def test_with_hints_a_pending_plugin_ends_the_wait_at_once() -> None:
    world = QueueWorld((NODE_ADD, "Waits", queues), uses_hints=True)
    world.reject("a", pending=["Waits"])
    world.queue.move_all_to_active_or_backoff(NODE_ADD)
    assert world.popped() == ["a"]


def test_an_error_is_tried_again_after_backoff() -> None:
    world = QueueWorld()
    world.reject("a")
    assert world.summary == (0, 1, 0)


def test_an_update_of_a_rejected_pod_ends_its_wait_if_more_than_its_status_changed() -> None:
    world = QueueWorld()
    pod = world.reject("a", "Fit")
    world.clock.pass_seconds(10)
    world.queue.update(pod, changed(pod))
    assert world.popped() == []
    world.queue.update(pod, changed(pod, labels={"app": "new"}))
    assert world.popped() == ["a"]


def test_without_hints_a_pod_that_changes_in_flight_is_queued_anew_and_its_return_is_dropped() -> None:
    world = QueueWorld()
    pod = queue_pod("a")
    world.queue.add(pod)
    first = world.pop()
    world.queue.update(pod, changed(pod))
    second = world.queue.pop()
    assert second is not None
    assert (first.attempts, second.attempts) == (1, 1)
    assert world.fail(second, "Fit")
    assert not world.fail(first, "Fit")


def test_with_hints_a_change_in_flight_counts_when_the_pod_comes_back() -> None:
    world = QueueWorld((UNSCHEDULED_POD_UPDATE, "Fit", queues), uses_hints=True)
    pod = queue_pod("a")
    world.queue.add(pod)
    info = world.pop()
    world.queue.update(pod, changed(pod))
    assert world.summary == (0, 0, 0)
    world.fail(info, "Fit")
    assert world.summary == (0, 1, 0)


def test_a_pod_whose_update_helps_in_one_way_only_is_in_one_queue() -> None:
    """v1.31.1 leaves it in backoffQ and among the unschedulable pods."""
    world = QueueWorld((POD_LABEL_CHANGE, "Fit", queues), (POD_REQUEST_SCALED_DOWN, "Fit", skips), uses_hints=True)
    pod = world.reject("a", "Fit", containers=(make_container({"cpu": "2"}),))
    world.queue.update(pod, changed(pod, labels={"app": "new"}, containers=(make_container({"cpu": "1"}),)))
    assert world.summary == (0, 1, 0)
    world.clock.pass_seconds(1)
    world.queue.flush_backoff_completed()
    assert world.popped() == ["a"]
    assert world.summary == (0, 0, 0)


@pytest.mark.parametrize("uses_hints", [False, True])
def test_a_deleted_pod_is_nowhere(uses_hints: bool) -> None:
    world = QueueWorld(uses_hints=uses_hints)
    in_backoff, unschedulable, active = world.reject("a"), world.reject("b", "Fit"), queue_pod("c")
    world.queue.add(active)
    assert world.summary == (1, 1, 1)
    for pod in (in_backoff, unschedulable, active, active):
        world.queue.delete(pod)
    assert world.summary == (0, 0, 0)
    assert world.queue.pending_pods()[0] == []


def test_activate_ends_every_wait_and_leaves_unknown_pods() -> None:
    world = QueueWorld()
    pods = [world.reject("a"), world.reject("b", "Fit")]
    world.queue.activate([*pods, queue_pod("unknown")])
    assert sorted(world.popped()) == ["a", "b"]


def test_no_pod_is_unschedulable_for_more_than_five_minutes() -> None:
    world = QueueWorld()
    world.reject("a", "Fit")
    world.clock.pass_seconds(300)
    world.queue.flush_unschedulable_leftover()
    assert world.popped() == []
    world.clock.pass_seconds(0.5)
    world.queue.flush_unschedulable_leftover()
    assert world.popped() == ["a"]


def test_nominated_pods_are_those_that_the_queue_knows() -> None:
    world = QueueWorld()
    world.watched = {"default/a", "default/b"}
    waiting, in_flight = queue_pod("a"), queue_pod("b", priority=9)
    for pod in (waiting, in_flight):
        world.queue.add(pod)
        world.queue.nominator.add(pod, "node")
    world.pop()
    known, unknown = world.queue.nominated_pods_for_node("node")
    assert known is waiting
    assert (unknown.metadata.name, unknown.metadata.uid, unknown.spec.priority) == ("b", "uid-of-b", 0)
    world.queue.delete(waiting)
    assert len(world.queue.nominated_pods_for_node("node")) == 1


def test_a_pod_on_a_node_moves_none_that_it_is_not_near() -> None:
    world = QueueWorld((ClusterEvent(POD, ActionType.ADD), "Fit", queues), (NODE_ADD, "PodTopologySpread", queues))
    world.reject("a", "Fit")
    world.queue.assigned_pod_added(queue_pod("new"))
    assert world.summary == (0, 0, 1)


def test_waiting_ends_with_the_first_pod_and_with_the_end_of_the_queue() -> None:
    async def scenario() -> None:
        world = QueueWorld()
        waiting = asyncio.create_task(world.queue.wait())
        await asyncio.sleep(0)
        assert not waiting.done()
        world.queue.add(queue_pod("a"))
        assert await waiting
        assert await world.queue.wait()
        assert world.popped() == ["a"]
        waiting = asyncio.create_task(world.queue.wait())
        await asyncio.sleep(0)
        world.queue.close()
        assert not await waiting

    asyncio.run(scenario())


def test_waiting_can_be_cancelled() -> None:
    async def scenario() -> None:
        world = QueueWorld()
        waiting = asyncio.create_task(world.queue.wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        world.queue.add(queue_pod("a"))
        assert await world.queue.wait()

    asyncio.run(scenario())


# Later releases.


@pytest.mark.parametrize(("minor", "popped"), [(32, []), (33, ["a"]), (37, ["a"])])
def test_from_1_33_a_pod_leaves_backoff_when_no_other_waits(minor: int, popped: list[str]) -> None:
    world = release(minor, NODE_HELPS_FIT)
    world.reject("a", "Fit")
    world.queue.move_all_to_active_or_backoff(NODE_ADD)
    assert world.summary == (0, 1, 0)
    assert world.popped() == popped


@in_event_loop
async def test_a_pod_that_begins_to_back_off_wakes_who_waits_for_one() -> None:
    world = release(37, NODE_HELPS_FIT)
    world.reject("a", "Fit")
    waiting = asyncio.create_task(world.queue.wait())
    await asyncio.sleep(0)
    world.queue.move_all_to_active_or_backoff(NODE_ADD)
    assert await asyncio.wait_for(waiting, 1)
    assert world.popped() == ["a"]


@pytest.mark.parametrize("minor", [32, 37])
def test_a_pod_that_failed_with_an_error_waits_for_the_end_of_its_backoff(minor: int) -> None:
    world = release(minor)
    world.reject("a")
    assert world.popped() == []
    world.clock.pass_seconds(2)
    world.queue.flush_backoff_completed()
    assert world.popped() == ["a"]


@pytest.mark.parametrize(("minor", "summary"), [(31, (0, 0, 1)), (32, (0, 1, 0)), (37, (0, 1, 0))])
def test_from_1_32_a_pod_that_is_activated_in_flight_is_tried_again(minor: int, summary: tuple[int, int, int]) -> None:
    world = QueueWorld(NODE_HELPS_FIT, rules=rules_of(minor, {"SchedulerQueueingHints": True}))
    pod, other = queue_pod("a"), queue_pod("b")
    world.queue.add(pod)
    world.queue.add(other)
    info, others = world.pop(), world.pop()
    world.queue.activate([pod])
    world.fail(info, "Fit")
    assert world.summary == summary
    world.fail(others, "Fit")  # only the pod is meant
    assert world.summary[2] == summary[2] + 1


def test_from_1_32_a_pod_in_flight_is_not_popped_once_more() -> None:
    for minor, again in ((31, ["a"]), (32, [])):
        world = QueueWorld(rules=rules_of(minor, {"SchedulerQueueingHints": True}))
        world.queue.add(queue_pod("a"))
        world.pop()
        world.queue.add(queue_pod("a"))
        assert world.popped() == again


@pytest.mark.parametrize(("minor", "summary"), [(33, (1, 0, 0)), (34, (0, 0, 1))])
def test_from_1_34_a_gated_pod_is_moved_by_the_events_of_the_plugin_that_gates_it(
    minor: int, summary: tuple[int, int, int]
) -> None:
    world = release(minor, NODE_HELPS_FIT, (NODE_DELETE, "Holding", queues))
    pod = queue_pod("a", labels={"hold": "yes"})
    world.queue.add(pod)
    (entry,) = world.queue.entries()
    entry.info.unschedulable_plugins |= {"Fit"}
    world.queue.update(pod, changed(pod, labels={"hold": "yes"}))
    entry.info.pod = changed(pod, labels={})
    world.queue.move_all_to_active_or_backoff(NODE_ADD)
    assert world.summary == summary
    world.queue.move_all_to_active_or_backoff(NODE_DELETE)
    assert world.summary == (1, 0, 0)


@pytest.mark.parametrize(("minor", "nominated"), [(36, []), (37, ["a"])])
def test_from_1_37_a_gated_pod_is_nominated(minor: int, nominated: list[str]) -> None:
    world = release(minor)
    pod = queue_pod("a", scheduling_gates=GATE)
    pod = msgspec.structs.replace(pod, status=PodStatus(nominated_node_name="n"))
    world.watched.add("default/a")
    world.queue.add(pod)
    assert [found.metadata.name for found in world.queue.nominated_pods_for_node("n")] == nominated


@pytest.mark.parametrize(("minor", "flushed"), [(36, 0), (37, 1)])
def test_from_1_37_the_flush_of_leftovers_asks_about_gated_pods_once_a_period(minor: int, flushed: int) -> None:
    asked: list[str] = []

    def hold(pod: Pod) -> Status | None:
        asked.append(pod.metadata.name)
        return unresolvable("held")

    world = QueueWorld(rules=rules_of(minor), hold=hold)
    world.queue.add(queue_pod("a"))
    asked.clear()
    world.clock.pass_seconds(301)
    for _ in range(2):
        world.queue.flush_unschedulable_leftover()
    assert len(asked) == flushed
    (entry,) = world.queue.entries()
    assert entry.until == (None if minor == 36 else entry.info.queued_at + 601)


@pytest.mark.parametrize(("minor", "label"), [(36, "UnschedulablePodUpdate"), (37, "UnscheduledPodAdd")])
def test_from_1_37_an_update_of_an_unknown_pod_adds_it(minor: int, label: str) -> None:
    world = release(minor)
    pod = queue_pod("a")
    world.queue.update(pod, changed(pod))
    assert world.counts == {("active", label): 1}


def test_from_1_37_a_plugin_may_want_the_events_of_running_pods_alone() -> None:
    world = release(37, (ClusterEvent(ASSIGNED_POD, ActionType.UPDATE), "Fit", queues))
    pod = world.reject("a", "Fit")
    world.queue.update(pod, changed(pod))
    assert world.summary == (0, 0, 1)
    world.queue.move_all_to_active_or_backoff(ClusterEvent(ASSIGNED_POD, ActionType.UPDATE_POD_LABEL, "it"))
    assert world.summary == (0, 1, 0)

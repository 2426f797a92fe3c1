"""How pods that PreEnqueue rejects are kept out, counted and let in."""

import pytest

from extender_service.framework.cluster_event import POD, ActionType, ClusterEvent
from extender_service.framework.status import Status
from extender_service.kube.types.core import Pod
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


def test_a_gated_pod_waits_until_an_update_opens_its_gates() -> None:
    world = QueueWorld(NODE_HELPS_FIT)
    pod = queue_pod("a", scheduling_gates=GATE)
    world.queue.add(pod)
    assert world.queue.pending_counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    world.clock.pass_seconds(1000)
    world.queue.flush_unschedulable_leftover()
    world.queue.move_all_to_active_or_backoff(NODE_ADD)
    assert world.popped() == []
    world.queue.update(pod, changed(pod, scheduling_gates=()))
    assert world.popped() == ["a"]
    assert world.queue.pending_counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}


def test_a_pre_enqueue_plugin_that_fails_keeps_a_pod_out_until_an_event_that_it_registered() -> None:
    fails = True

    def hold(pod: Pod) -> Status | None:
        if fails:
            raise RuntimeError("broken")
        return None

    world = QueueWorld((NODE_ADD, "Holding", queues), hold=hold)
    world.queue.add(queue_pod("a"))
    assert world.summary == (0, 0, 1)
    assert world.rejections["Holding"] == 1
    fails = False
    world.queue.move_all_to_active_or_backoff(NODE_ADD)
    assert world.popped() == ["a"]
    assert world.rejections["Holding"] == 0


@pytest.mark.parametrize(("minor", "counts"), [(35, (1, 0)), (36, (0, 1))])
def test_from_1_36_pending_pods_follows_a_pod_that_becomes_gated(minor: int, counts: tuple[int, int]) -> None:
    world = release(minor, (ClusterEvent(POD, ActionType.UPDATE), "Fit", queues))
    pod = world.reject("a", "Fit")
    world.queue.update(pod, changed(pod, labels={"hold": "yes"}))
    pending = world.queue.pending_counts()
    assert (pending["unschedulable"], pending["gated"]) == counts


def test_from_1_36_a_rejection_is_counted_once_and_not_after_the_pod_is_gone() -> None:
    counted = {}
    for minor in (35, 36):
        world = release(minor, (ClusterEvent(POD, ActionType.UPDATE), "Holding", queues))
        pod = queue_pod("a", labels={"hold": "yes"})
        world.queue.add(pod)
        newer = changed(pod, labels={"hold": "yes", "other": "x"})
        world.queue.update(pod, newer)
        twice = world.rejections["Holding"]
        world.queue.delete(newer)
        counted[minor] = (twice, world.rejections["Holding"])
    assert counted == {35: (2, 2), 36: (1, 0)}

from extender_service.config.rules import rules_of
from extender_service.queue.backoff_queue import BackoffQueue
from extender_service.queue.pod_backoff import DEFAULT_BACKOFF
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.support.clock import Clock
from tests.support.clusters.queue_worlds import queue_pod


def queue_of(minor: int, clock: Clock) -> BackoffQueue:
    return BackoffQueue(DEFAULT_BACKOFF, rules_of(minor), clock, lambda info: -info.pod.spec.priority)


def info(name: str, queued_at: float, *, priority: int = 0, failed: bool = False) -> QueuedPodInfo:
    pod = queue_pod(name, priority=priority)
    if failed:
        return QueuedPodInfo(pod, queued_at, name, attempts=1, errors=1)
    return QueuedPodInfo(pod, queued_at, name, attempts=1, rejections=1, unschedulable_plugins=frozenset({"Fit"}))


def test_pods_leave_early_by_the_second_and_then_as_the_active_queue_has_them() -> None:
    queue = queue_of(33, Clock())
    for pod in (info("a", 5.1), info("b", 5.9, priority=1), info("c", 4.5), info("d", 4.5, failed=True)):
        queue.add(pod)
    assert queue.may_leave
    left = []
    while (pod_info := queue.leave()) is not None:
        left.append(pod_info.key)
    assert left == ["c", "b", "a"]
    assert [pod.key for pod in queue] == ["d"]
    assert not queue.may_leave


def test_no_pod_leaves_v1_32_early() -> None:
    queue = queue_of(32, Clock())
    queue.add(info("a", 5))
    assert not queue.may_leave
    assert queue.leave() is None


def test_backoff_is_over_after_the_second_in_which_it_ends() -> None:
    clock = Clock()
    clock.now = 10.25
    for minor, ends in ((31, ["a"]), (33, [])):
        queue = queue_of(minor, clock)
        queue.add(info("a", 9.25))  # it backs off for a second
        assert [pod.key for pod in queue.pop_completed()] == ends
    clock.now = 11.0
    assert [pod.key for pod in queue.pop_completed()] == ["a"]


def test_a_pod_is_found_and_removed_whether_it_failed_or_was_rejected() -> None:
    queue = queue_of(37, Clock())
    queue.add(info("a", 5))
    queue.add(info("b", 5, failed=True))
    assert len(queue) == 2
    assert [pod.key for pod in queue.failed] == ["b"]
    for key in ("a", "b"):
        found = queue.get(key)
        assert found is not None
        assert found.key == key
        assert queue.remove(key)
        assert key not in queue
        assert queue.get(key) is None


def test_flushes_are_due_on_whole_seconds_where_backoff_ends_there() -> None:
    clock = Clock()
    clock.now = 10.25
    assert queue_of(32, clock).seconds_to_flush == 1.0
    assert queue_of(33, clock).seconds_to_flush == 0.75
    clock.now = 11.0
    assert queue_of(33, clock).seconds_to_flush == 1.0

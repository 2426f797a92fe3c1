import pytest

from extender_service.queue.pod_backoff import DEFAULT_BACKOFF, PodBackoff
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.support.queue_worlds import queue_pod


@pytest.mark.parametrize(("attempts", "seconds"), [(0, 1), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (1_000_000, 10)])
def test_each_attempt_doubles_the_wait_up_to_the_maximum(attempts: int, seconds: float) -> None:
    assert DEFAULT_BACKOFF.seconds(attempts) == seconds


def test_an_initial_wait_above_the_maximum_holds_for_the_first_attempt_alone() -> None:
    backoff = PodBackoff(initial_seconds=5, maximum_seconds=3)
    assert [backoff.seconds(attempts) for attempts in (1, 2, 3)] == [5, 3, 3]


def test_no_wait_stays_none_however_often_a_pod_was_tried() -> None:
    assert PodBackoff(0, 10).seconds(10**12) == 0


def test_the_wait_begins_when_the_pod_comes_back() -> None:
    info = QueuedPodInfo(queue_pod("a"), 100.0, "default/a", attempts=3)
    assert DEFAULT_BACKOFF.end(info) == 104.0

import pytest

from extender_service.config.rules import rules_of
from extender_service.queue.pod_backoff import DEFAULT_BACKOFF, NEVER, PodBackoff, backoff_end
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.support.clusters.queue_worlds import queue_pod


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


@pytest.mark.parametrize(("minor", "end"), [(31, 104.5), (32, 104.5), (33, 104), (34, 102), (37, 102)])
def test_from_1_33_backoff_ends_in_whole_seconds_and_from_1_34_errors_have_a_count_of_their_own(
    minor: int, end: float
) -> None:
    info = QueuedPodInfo(queue_pod("a"), 100.5, "default/a", attempts=3, rejections=5, errors=2)
    assert backoff_end(DEFAULT_BACKOFF, rules_of(minor))(info) == end


def test_from_1_32_a_pod_that_was_never_tried_does_not_back_off() -> None:
    info = QueuedPodInfo(queue_pod("a"), 100.0, "default/a")
    assert [backoff_end(DEFAULT_BACKOFF, rules_of(minor))(info) for minor in (31, 32, 37)] == [101, NEVER, NEVER]


def test_from_1_34_a_maximum_of_nothing_turns_backoff_off_and_a_smaller_one_holds_at_once() -> None:
    info = QueuedPodInfo(queue_pod("a"), 100.0, "default/a", attempts=1, rejections=1)
    assert [backoff_end(PodBackoff(1, 0), rules_of(minor))(info) for minor in (33, 34)] == [101, NEVER]
    assert [backoff_end(PodBackoff(5, 3), rules_of(minor))(info) for minor in (33, 34)] == [105, 103]

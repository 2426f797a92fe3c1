"""How long plugins may take in an attempt, and for how long the event loop is free after it."""

import math
from contextlib import suppress

import pytest

from extender_service.scheduler.time_limit import TimeLimit
from tests.support.clock import Clock


def test_each_attempt_has_the_same_time() -> None:
    clock = Clock()
    limit = TimeLimit(clock, 4)
    for _ in range(2):
        limit.begin()
        assert limit.deadline == clock() + 4
        clock.pass_seconds(3)


def test_the_time_in_which_extenders_are_asked_is_left_out_also_if_they_fail() -> None:
    clock = Clock()
    limit = TimeLimit(clock, 4)
    limit.begin()
    deadline = limit.deadline
    with suppress(ConnectionError), limit.left_out():
        clock.pass_seconds(60)
        raise ConnectionError
    assert limit.deadline == deadline + 60
    assert limit.rest_seconds() == 0


@pytest.mark.parametrize(("taken", "rest"), [(0.0, 0.0), (0.4, 0.0), (1.0, 0.25), (4.0, 1.0), (60.0, 1.0)])
def test_the_event_loop_is_free_after_a_long_attempt_for_a_quarter_of_its_time(taken: float, rest: float) -> None:
    clock = Clock()
    limit = TimeLimit(clock, 4)
    limit.begin()
    clock.pass_seconds(taken)
    assert limit.rest_seconds() == rest
    clock.pass_seconds(60)
    assert limit.rest_seconds() == 0  # no attempt has begun since


@pytest.mark.parametrize(("limit_seconds", "taken", "rest"), [(0.4, 0.04, 0.0), (0.4, 0.08, 0.02), (60.0, 0.6, 0.15)])
def test_what_is_long_depends_on_short_limits_only(limit_seconds: float, taken: float, rest: float) -> None:
    clock = Clock()
    limit = TimeLimit(clock, limit_seconds)
    limit.begin()
    clock.pass_seconds(taken)
    assert limit.rest_seconds() == pytest.approx(rest)


def test_without_a_limit_attempts_may_take_any_time_and_none_is_long() -> None:
    clock = Clock()
    limit = TimeLimit(clock)
    limit.begin()
    assert limit.deadline == math.inf
    clock.pass_seconds(1000)
    assert limit.rest_seconds() == 0

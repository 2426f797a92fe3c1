import pytest

from extender_service.extender.second_look import PATIENCE_SECONDS, SAVED_SECONDS, SHARE, WaitBudget
from tests.unit.cluster.clock import Clock


def waits_until_refused(budget: WaitBudget) -> int:
    """How many calls in a row may wait for as long as one may."""
    waits = 0
    while allowance := budget.allowance():
        assert allowance == PATIENCE_SECONDS
        budget.spend(allowance)
        waits += 1
    return waits


def test_at_first_there_is_a_second_to_spend() -> None:
    assert waits_until_refused(WaitBudget(Clock())) == pytest.approx(SAVED_SECONDS / PATIENCE_SECONDS, abs=1)


def test_from_then_on_a_twentieth_of_wall_time() -> None:
    clock = Clock()
    budget = WaitBudget(clock)
    waits_until_refused(budget)
    waited = 0
    for _ in range(1000):
        clock.pass_seconds(0.1)
        waited += waits_until_refused(budget)
    assert waited * PATIENCE_SECONDS == pytest.approx(100 * SHARE, rel=0.02)


def test_no_more_than_a_second_is_saved_up() -> None:
    clock = Clock()
    budget = WaitBudget(clock)
    clock.pass_seconds(1_000_000)
    assert waits_until_refused(budget) <= SAVED_SECONDS / PATIENCE_SECONDS


def test_a_wait_that_took_longer_than_allowed_is_paid_back() -> None:
    clock = Clock()
    budget = WaitBudget(clock)
    budget.spend(SAVED_SECONDS + 0.5)
    clock.pass_seconds(10)
    assert budget.allowance() == 0
    clock.pass_seconds(1.01)
    assert budget.allowance() == PATIENCE_SECONDS

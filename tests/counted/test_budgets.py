import pytest

from tests.counted.budgets import PYTHON, problem


@pytest.mark.parametrize("count", [701, 1000, 1049])
def test_a_count_near_its_budget_is_fine(count: int) -> None:
    assert problem(count, 1000, PYTHON) is None


def test_a_count_above_its_budget_is_a_problem_on_any_python() -> None:
    for python in (PYTHON, (3, 13)):
        assert problem(1051, 1000, python) == "1051 bytecodes, the budget is 1000"


def test_a_budget_that_is_far_too_high_is_to_be_lowered() -> None:
    assert problem(699, 1000, PYTHON) == "only 699 bytecodes, lower the budget of 1000"


def test_a_newer_python_may_execute_fewer_than_the_one_that_budgets_are_for() -> None:
    assert problem(699, 1000, (3, 13)) is None

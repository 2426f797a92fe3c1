import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.plugins.shared.integer_division import divide_towards_zero
from tests.support.go_integers import quotient

int64s = st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)


def divided(number: int, divisor: int) -> int:
    found: list[int] = divide_towards_zero(np.array([number]), np.array([divisor])).tolist()
    return found[0]


@pytest.mark.parametrize(
    ("number", "divisor", "expected"),
    [(7, 2, 3), (-7, 2, -3), (7, -2, -3), (-7, -2, 3), (-6, 2, -3), (-1, 2, 0), (-(2**63), -1, -(2**63))],
)
def test_what_is_left_over_is_dropped(number: int, divisor: int, expected: int) -> None:
    assert divided(number, divisor) == expected == quotient(number, divisor)


@given(number=int64s, divisor=int64s.filter(bool))
def test_every_int64_is_divided_as_in_go(number: int, divisor: int) -> None:
    assert divided(number, divisor) == quotient(number, divisor)


def test_of_no_numbers_there_are_no_quotients() -> None:
    assert len(divide_towards_zero(np.array([], np.int64), np.array([], np.int64))) == 0

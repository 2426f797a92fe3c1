from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from extender_service.cluster.structures.change_log import MOST_CHANGES, ChangeLog
from extender_service.cluster.structures.following_columns import RowColumns
from extender_service.cluster.structures.memo import NoMemo

Function = Callable[[NoMemo], NDArray[Any]]


class Kept(RowColumns):
    """Columns that are computed by a function of the rows."""

    def __init__(self, limit: int = 128, state_of: Callable[[int], bytes] | None = None) -> None:
        super().__init__(None, ChangeLog(), state_of, limit)
        self._functions: dict[Hashable, Function] = {}

    def of(self, key: Hashable, size: int, function: Function) -> NDArray[Any]:
        self._functions[key] = function
        column = self.current(key, self.compute)
        return self.start(key, size, self.compute) if column is None else column.values

    def compute(self, key: Hashable, rows: NoMemo) -> NDArray[Any]:
        return self._functions[key](rows)


class Squares:
    """Squares of numbers by row, and the rows that were worked out."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers
        self.asked: list[list[int]] = []

    def __call__(self, asked: NoMemo) -> NDArray[np.int64]:
        rows = rows_of(asked)
        self.asked.append(rows)
        return np.array([self.numbers[row] ** 2 for row in rows], np.int64)


def rows_of(asked: NoMemo) -> list[int]:
    rows: list[int] = asked.rows.tolist()
    return rows


def test_only_what_changed_is_worked_out_again() -> None:
    kept, squares = Kept(), Squares([1, 2, 3, 4])
    assert kept.of("squares", 4, squares).tolist() == [1, 4, 9, 16]
    squares.numbers[2] = 5
    kept.changes.append(2)
    kept.changes.append(2)
    assert kept.of("squares", 4, squares).tolist() == [1, 4, 25, 16]
    assert kept.of("squares", 4, squares).tolist() == [1, 4, 25, 16]
    assert squares.asked == [[0, 1, 2, 3], [2]]


def test_a_row_in_a_state_that_came_before_is_not_worked_out() -> None:
    squares = Squares([1, 2, 3, 4])
    kept = Kept(state_of=lambda row: bytes([squares.numbers[row]]))
    kept.of("squares", 4, squares)
    for row, number in ((0, 9), (1, 9), (0, 1), (2, 9), (2, 1)):
        squares.numbers[row] = number
        kept.changes.append(row)
        assert kept.of("squares", 4, squares).tolist() == [item**2 for item in squares.numbers]
    assert squares.asked == [[0, 1, 2, 3], [0], [0]]


def test_states_have_as_many_numbers_as_rows() -> None:
    table = np.array([[1, 2, 3], [4, 5, 6]])
    kept = Kept(state_of=lambda row: table[:, row].tobytes())
    kept.of("both", 3, lambda asked: table[:, rows_of(asked)])
    for row, numbers in ((1, (7, 8)), (2, (7, 8)), (1, (2, 5))):
        table[:, row] = numbers
        kept.changes.append(row)
        assert kept.of("both", 3, lambda asked: table[:, rows_of(asked)]).tolist() == table.tolist()


def test_many_rows_are_worked_out_together() -> None:
    squares = Squares([1] * 40)
    kept = Kept(state_of=lambda row: bytes([squares.numbers[row]]))
    kept.of("squares", 40, squares)
    for number in (2, 3, 2):
        for row in range(17):
            squares.numbers[row] = number
            kept.changes.append(row)
        kept.of("squares", 40, squares)
    assert squares.asked[1:] == [list(range(17))] * 3


def test_only_so_many_states_are_known() -> None:
    squares = Squares([0, 0, 0])
    kept = Kept(state_of=lambda row: squares.numbers[row].to_bytes(2, "big"))
    kept.of("squares", 3, squares)
    for number in (*range(1, 258), 1):
        squares.numbers[0] = number
        kept.changes.append(0)
        assert kept.of("squares", 3, squares)[0] == number**2
    assert len(squares.asked) == 1 + 258


def test_the_last_axis_is_the_row() -> None:
    kept = Kept()
    table = np.array([[1, 2, 3], [4, 5, 6]])
    kept.of("both", 3, lambda asked: table[:, rows_of(asked)])
    table[:, 1] = (7, 8)
    kept.changes.append(1)
    assert kept.of("both", 3, lambda asked: table[:, rows_of(asked)]).tolist() == table.tolist()


def test_after_too_many_changes_all_is_worked_out_again() -> None:
    kept, squares = Kept(), Squares(list(range(8)))
    kept.of("squares", 8, squares)
    for _ in range(MOST_CHANGES + 1):
        kept.changes.append(3)
    squares.numbers[3] = 9
    assert kept.of("squares", 8, squares)[3] == 81
    assert squares.asked[-1] == list(range(8))


def test_only_so_many_are_kept() -> None:
    kept = Kept(limit=2)
    for key in ("a", "b", "a", "c"):
        kept.of(key, 1, Squares([1]))
    assert len(kept) == 2
    assert "a" in kept
    assert "b" not in kept


@given(
    steps=st.lists(st.tuples(st.sampled_from(["set", "add", "ask"]), st.integers(0, 30), st.integers(0, 9))),
    has_states=st.booleans(),
)
def test_what_is_kept_is_what_would_be_worked_out_now(steps: list[tuple[str, int, int]], *, has_states: bool) -> None:
    squares = Squares([0])
    kept = Kept(state_of=(lambda row: bytes([squares.numbers[row]])) if has_states else None)
    for step, row, number in steps:
        if step == "set" and row < len(squares.numbers):
            squares.numbers[row] = number
            kept.changes.append(row)
        elif step == "add":
            squares.numbers.append(number)
            kept.changes.append(len(squares.numbers) - 1)
        size = len(squares.numbers)
        assert kept.of("squares", size, squares)[:size].tolist() == [item**2 for item in squares.numbers]


def test_what_was_used_last_is_brought_up_to_date_ahead() -> None:
    kept, columns = Kept(), [Squares([1, 2, 3]) for _ in range(20)]
    for _ in range(2):  # computed, found again
        for number, squares in enumerate(columns):
            kept.of(number, 3, squares)
    kept.of(0, 3, columns[0])
    kept.changes.append(1)
    kept.catch_up(kept.compute)
    caught_up = [number for number, squares in enumerate(columns) if squares.asked[1:] == [[1]]]
    assert caught_up == [0, *range(5, 20)]
    for number, squares in enumerate(columns):
        kept.of(number, 3, squares)
        assert squares.asked == [[0, 1, 2], [1]]


def test_what_is_used_no_more_is_soon_brought_up_to_date_no_more() -> None:
    kept, squares = Kept(), Squares([1, 2, 3])
    for _ in range(20):
        kept.of("squares", 3, squares)
    for _ in range(20):
        kept.changes.append(1)
        kept.catch_up(kept.compute)
    assert len(squares.asked) == 1 + 16
    squares.numbers[1] = 5
    assert kept.of("squares", 3, squares).tolist() == [1, 25, 9]


def test_what_was_used_last_and_is_kept_no_more_is_left_alone() -> None:
    kept, squares = Kept(), Squares([1, 2, 3])
    for _ in range(2):
        kept.of("squares", 3, squares)
    kept.forget("squares")
    kept.changes.append(1)
    kept.catch_up(kept.compute)
    assert squares.asked == [[0, 1, 2]]


def test_what_cannot_be_brought_up_to_date_is_forgotten() -> None:
    kept = Kept()
    for _ in range(2):
        kept.of("squares", 2, Squares([1, 2]))
    kept.changes.append(2)
    kept.catch_up(kept.compute)
    assert "squares" not in kept


def test_what_fails_ahead_fails_for_whoever_asks_next() -> None:
    kept, numbers = Kept(), [1, 0]

    def inverses(asked: NoMemo) -> NDArray[np.float64]:
        return np.array([1 / numbers[row] for row in rows_of(asked)])

    numbers[1] = 2
    for _ in range(2):
        kept.of("inverses", 2, inverses)
    numbers[1] = 0
    kept.changes.append(1)
    kept.catch_up(kept.compute)
    assert "inverses" not in kept
    with pytest.raises(ZeroDivisionError):
        kept.of("inverses", 2, inverses)
    numbers[1] = 4
    assert kept.of("inverses", 2, inverses).tolist() == [1.0, 0.25]


@pytest.mark.parametrize(("changed", "worked_out"), [([3, 1], [3, 1]), ([3, 1, 2], [0, 1, 2, 3])])
def test_where_more_than_half_of_the_rows_changed_all_are_worked_out(changed: list[int], worked_out: list[int]) -> None:
    kept, squares = Kept(), Squares([1, 2, 3, 4])
    kept.of("squares", 4, squares)
    for row in changed:
        kept.changes.append(row)
    kept.of("squares", 4, squares)
    assert squares.asked[1:] == [worked_out]


def test_a_row_beyond_those_asked_for_may_change() -> None:
    kept, squares = Kept(), Squares([1, 2])
    kept.of("squares", 2, squares)
    squares.numbers.append(3)
    kept.changes.append(2)
    assert kept.of("squares", 2, squares).tolist() == [1, 4]


@pytest.mark.parametrize(("numbers_a_row", "is_kept"), [(32, True), (33, False)])
def test_what_has_too_many_numbers_a_row_is_not_kept(numbers_a_row: int, is_kept: bool) -> None:
    kept = Kept()
    assert kept.of("wide", 2, lambda asked: np.zeros((numbers_a_row, asked.size))).shape == (numbers_a_row, 2)
    assert ("wide" in kept) == is_kept

import numpy as np

from extender_service.cluster.structures.growing_counts import GrowingCounts


def test_what_was_never_counted_is_zero() -> None:
    counts = GrowingCounts()
    counts.add(2, 5)
    counts.add(1000, 1)
    counts.add(2, -1)
    assert counts.at(np.array([0, 2, 1000, 999999])).tolist() == [0, 4, 1, 0]
    assert counts.array[2] == 4
    assert counts.total == 5


def test_no_numbers_have_no_counts() -> None:
    assert GrowingCounts().at(np.array([], np.intp)).tolist() == []


def test_numbers_just_past_the_end_are_zero_too() -> None:
    counts = GrowingCounts()
    counts.add(0, 7)
    counts.add(1, 8)
    end = len(counts.array)
    assert counts.at(np.array([end - 1, 1, end, 0, end + 1])).tolist() == [0, 8, 0, 7, 0]


def test_there_is_room_for_any_number() -> None:
    counts = GrowingCounts()
    for number in (3, 64, 65, 1000, 3):
        counts.add(number, 1)
    assert counts.at(np.array([3, 64, 65, 1000, 999])).tolist() == [2, 1, 1, 1, 0]
    counts.add(3, -2)
    assert counts.array.sum() == 3

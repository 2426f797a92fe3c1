import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from extender_service.plugins.shared.shape import broken_linear, percent_in_use
from tests.support.shapes import line


@given(shape=st.dictionaries(st.integers(0, 100), st.integers(0, 100), min_size=1, max_size=5))
def test_straight_lines_between_points(shape: dict[int, int]) -> None:
    points = sorted(shape.items())
    assert broken_linear(points).tolist() == [line(points, percent) for percent in range(101)]


def test_a_falling_line_is_rounded_towards_its_start() -> None:
    assert broken_linear([(0, 10), (3, 0)])[:4].tolist() == [10, 7, 4, 0]


def test_percentages_stay_where_a_shape_has_values() -> None:
    used = np.array([0, 1, 4, 5, 82 * 2**50, -(2**62), -(2**62) + 2**50])
    offered = np.array([4, 4, 4, 4, 2**60, 4, 4])
    # 82 Pi times 100 is negative in int64; -2^62 times 100 is 0, and 1 Pi more is positive again.
    assert percent_in_use(used, offered).tolist() == [0, 25, 100, 100, 0, 0, 100]

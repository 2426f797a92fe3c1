from hypothesis import given
from hypothesis import strategies as st

from extender_service.plugins.shared.shape import broken_linear
from tests.support.shapes import line


@given(shape=st.dictionaries(st.integers(0, 100), st.integers(0, 100), min_size=1, max_size=5))
def test_straight_lines_between_points(shape: dict[int, int]) -> None:
    points = sorted(shape.items())
    assert broken_linear(points).tolist() == [line(points, percent) for percent in range(101)]


def test_a_falling_line_is_rounded_towards_its_start() -> None:
    assert broken_linear([(0, 10), (3, 0)])[:4].tolist() == [10, 7, 4, 0]

"""Shapes of requestedToCapacityRatio, and what they say of a percentage."""

from hypothesis import strategies as st

shapes = st.dictionaries(st.integers(0, 100), st.integers(0, 10), min_size=1, max_size=4).map(
    lambda points: sorted(points.items())
)


def line(shape: list[tuple[int, int]], percent: int) -> int:
    """BuildBrokenLinearFunction; Go divides towards zero."""
    for index, (x, y) in enumerate(shape):
        if percent <= x:
            if index == 0:
                return y
            x0, y0 = shape[index - 1]
            return y0 + int((y - y0) * (percent - x0) / (x - x0))
    return shape[-1][1]

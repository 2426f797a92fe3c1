"""Functions of the share in use, drawn as straight lines between the points of a shape."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# The highest score of a point of a requestedToCapacityRatio shape (config.MaxCustomPriorityScore).
MAX_SHAPE_SCORE = 10


def broken_linear(points: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """Return the values at 0..100 of the function made of straight lines between points, flat outside them
    (plugins/helper/shape_score.go); Go divides towards zero."""
    values = []
    for percent in range(101):
        after = next((index for index, (x, _) in enumerate(points) if percent <= x), None)
        if after is None:
            values.append(points[-1][1])
        elif after == 0:
            values.append(points[0][1])
        else:
            (x0, y0), (x1, y1) = points[after - 1], points[after]
            rise = (y1 - y0) * (percent - x0)
            values.append(y0 + (abs(rise) // (x1 - x0)) * (1 if rise >= 0 else -1))
    return np.array(values, np.int64)

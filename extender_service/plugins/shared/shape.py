"""Functions of the share in use, drawn as straight lines between the points of a shape."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from extender_service.config.model import Int32Field, Model
from extender_service.config.problems import Problem, invalid, out_of_range, required
from extender_service.config.rules import Rules
from extender_service.plugins.shared.integer_division import divide_towards_zero

# The highest score of a point of a requestedToCapacityRatio shape (config.MaxCustomPriorityScore).
MAX_SHAPE_SCORE = 10


class UtilizationShapePoint(Model):
    """A point of a function from utilization in percent to a score of 0 to 10."""

    utilization: Int32Field = 0
    score: Int32Field = 0


def check_shape(shape: Sequence[UtilizationShapePoint], path: str, rules: Rules) -> Iterator[Problem]:
    """Yield what is wrong with the points of a function at this path (validateFunctionShape)."""
    if not shape:
        yield required(path, "at least one point must be specified")
    for index in range(1, len(shape)):
        if shape[index - 1].utilization >= shape[index].utilization:
            detail = "values must be sorted in increasing order"
            if not rules.fields_named_once:
                detail = f"utilization {detail}"
            yield invalid(f"{path}[{index}].utilization", shape[index].utilization, detail)
            break
    for index, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield out_of_range(f"{path}[{index}].utilization", point.utilization, "[0, 100]")
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            yield out_of_range(f"{path}[{index}].score", point.score, f"[0, {MAX_SHAPE_SCORE}]")


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


def percent_in_use(used: NDArray[np.int64], offered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the percentages, 0 to 100, at which the reference takes the values of a shape; `offered` is never 0.

    Percentages of amounts that overflow may lie outside, where a shape is flat.
    """
    percent = np.where(used > offered, 100, divide_towards_zero(used * 100, offered))
    return np.minimum(np.maximum(percent, 0), 100)

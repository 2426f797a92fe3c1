"""Sums over the nodes that have the same value of a label, such as all nodes of a zone."""

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.labels import ABSENT

Numbers = NDArray[np.intp]
Amounts = NDArray[np.int64]


def sum_by_value(numbers: Numbers, amounts: Amounts, size: int) -> Amounts:
    """Add up per-node amounts by the number of the node's value, of which there are `size`; ABSENT counts nowhere.

    The result has one entry more, of 0, for ABSENT to pick.
    """
    sums = np.zeros(size + 1, np.int64)
    np.add.at(sums, numbers, amounts)
    sums[ABSENT] = 0
    return sums


def is_present(numbers: Numbers) -> NDArray[np.bool_]:
    """Tell for each node whether it has the label."""
    present: NDArray[np.bool_] = numbers != ABSENT
    return present

"""Orders and ranks of many things at once."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_DIGIT_BITS = 16


def order_by(keys: Sequence[NDArray[np.integer]]) -> NDArray[np.intp]:
    """Return the order of things by keys of one length, the last of which counts most, like numpy.lexsort; equal things
    stay as they are.

    Sorts digit by digit: that takes a fifth of lexsort's time where the keys do not range over much.
    """
    order = np.arange(len(keys[0]))
    if not len(order):
        return order
    for key in keys:
        # Differences wrap around as Go's do, and so are right as unsigned numbers.
        above_least = (key - key.min()).astype(np.uint64, copy=False)
        for shift in range(0, int(above_least.max()).bit_length(), _DIGIT_BITS):
            digits = (above_least >> np.uint64(shift)).astype(np.uint16)
            # NumPy sorts 16 bits by counting.
            order = order[np.argsort(digits[order], kind="stable")]
    return order


def rank_in_group(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Number the members of each group from 0; equal groups are next to each other."""
    if not len(groups):
        return np.zeros(0, np.intp)
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    lengths = np.diff(np.append(starts, len(groups)))
    ranks: NDArray[np.intp] = np.arange(len(groups)) - np.repeat(starts, lengths)
    return ranks

"""Go's division of integers."""

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.structures.extremes import lowest_of


def divide_towards_zero(numerators: NDArray[np.int64], denominators: NDArray[np.int64] | np.int64) -> NDArray[np.int64]:
    """Divide as Go divides int64: towards zero, where NumPy rounds down. No denominator may be 0.

    Amounts can be negative, because both wrap numbers beyond int64: 100 times 82 PiB is one. A single denominator must
    be above 0.
    """
    if isinstance(denominators, np.ndarray) and lowest_of(denominators, axis=None, initial=0) < 0:
        with np.errstate(over="ignore"):  # the lowest int64 by -1
            quotients: NDArray[np.int64] = numerators // denominators
    else:
        quotients = numerators // denominators
    if lowest_of(quotients, axis=None, initial=0) < 0:
        quotients += (quotients < 0) & (quotients * denominators != numerators)
    return quotients

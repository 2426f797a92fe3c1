"""Counts by row or by slot, in an array that grows as rows or slots are added."""

import numpy as np
from numpy.typing import NDArray

_FIRST_CAPACITY = 64


class GrowingCounts:
    """A count for each number from 0; those never counted are 0. `total` is the sum of all."""

    def __init__(self) -> None:
        self.total = 0
        self.array = np.zeros(_FIRST_CAPACITY, np.int64)

    def add(self, number: int, more: int) -> None:
        """Count up, or down."""
        if number >= len(self.array):
            self.array = np.pad(self.array, (0, max(len(self.array), number + 1 - len(self.array))))
        self.array[number] += more
        self.total += more

    def at(self, numbers: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the counts of some numbers."""
        known = numbers < len(self.array)
        return np.where(known, self.array[np.where(known, numbers, 0)], 0)

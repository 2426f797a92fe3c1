"""What follows from what some nodes say of themselves, remembered for the next decision about the same nodes."""

from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
V = TypeVar("V", bound=np.generic)

# One decision looks at the nodes asked about, those that most plugins leave, and those that all do; the next decision
# mostly at the same ones.
_MOST_SELECTIONS = 4
# Pods may ask for anything that they make up: what they asked for is forgotten as a whole once it is this much.
_MOST_ENTRIES = 64
_MOST_NUMBERS_A_NODE = 64


def read_only(array: NDArray[V]) -> NDArray[V]:
    """Return the same numbers as an array that cannot be written to: a plugin that tries gets an error."""
    locked = array.view()
    locked.flags.writeable = False
    return locked


class Remembered:
    """What was worked out for the nodes in some `rows` of a table, None for all of it; good until a fact changes.

    The table has one for all of its nodes, and makes it anew whenever a node says something else of itself.
    """

    __slots__ = ("_by_key", "_numbers", "_selections", "rows", "size")

    def __init__(self, rows: NDArray[np.intp] | None, size: int) -> None:
        self.rows = rows
        self.size = size
        self._by_key: dict[Hashable, tuple[Hashable, Any]] = {}
        self._numbers = 0
        self._selections: list[tuple[bytes, Remembered]] = []

    def __contains__(self, key: Hashable) -> bool:
        return key in self._by_key

    def __len__(self) -> int:
        """How many answers there are, those for selections of these nodes among them."""
        return len(self._by_key) + sum(len(selected) for _, selected in self._selections)

    @property
    def limit(self) -> int:
        """How many there may be, if these are all nodes: selections of selections are not remembered."""
        return _MOST_ENTRIES * (1 + _MOST_SELECTIONS)

    def of(self, key: Hashable, work_out: Callable[[], T], as_of: Hashable = None) -> T:
        """Return what `work_out` makes for a key: arrays or plain values, from these nodes' facts and the key alone.

        If it also goes by what changes more often, `as_of` tells how far that has come: what was made as of something
        else is forgotten.
        """
        known = self._by_key.get(key)
        if known is not None and known[0] == as_of:
            value: T = known[1]
            return value
        return self._keep(key, as_of, work_out())

    def at(self, positions: NDArray[np.intp]) -> "Remembered":
        """Return what is remembered for the nodes at some positions of these."""
        if self.rows is not None:
            return Remembered(self.rows[positions], len(positions))
        selection = positions.tobytes()
        for known, remembered in self._selections:
            if known == selection:
                return remembered
        remembered = Remembered(positions, len(positions))
        self._selections = [*self._selections[1 - _MOST_SELECTIONS :], (selection, remembered)]
        return remembered

    def _keep(self, key: Hashable, as_of: Hashable, value: T) -> T:
        if isinstance(value, np.ndarray):
            value = cast("T", read_only(value))
        numbers = self._numbers_of(value)
        if key in self._by_key:
            self._numbers -= self._numbers_of(self._by_key.pop(key)[1])
        if len(self._by_key) == _MOST_ENTRIES or self._numbers + numbers > _MOST_NUMBERS_A_NODE * self.size:
            self._by_key.clear()
            self._numbers = 0
        if numbers <= _MOST_NUMBERS_A_NODE * self.size:
            self._by_key[key] = (as_of, value)
            self._numbers += numbers
        return value

    def _numbers_of(self, value: object) -> int:
        # What is no array may hold some.
        return value.size if isinstance(value, np.ndarray) else self.size

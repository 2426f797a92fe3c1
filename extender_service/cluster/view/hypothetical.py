"""Hypothetical nodes: each in its own world, the cluster as it is except for pods added to or taken from that node."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from extender_service.cluster.structures.memo import read_only

Positions = NDArray[np.intp]


class RowChanges:
    """Pods added to or taken from single nodes of a view; each node is then judged in its own changed world.

    Three arrays of the same length: the position of the node in the view, the slot of the pod, and +1 or -1.
    """

    __slots__ = ("positions", "signs", "slots")

    def __init__(self, positions: ArrayLike, slots: ArrayLike, signs: ArrayLike) -> None:
        self.positions = np.asarray(positions, np.intp)
        self.slots = np.asarray(slots, np.intp)
        self.signs = np.asarray(signs, np.int64)

    def changes_at(self, size: int) -> NDArray[np.bool_]:
        """Return which of `size` nodes are changed."""
        changed = np.zeros(size, np.bool_)
        changed[self.positions] = True
        return changed

    def at(self, positions: Positions, size: int) -> "RowChanges":
        """Return the changes of some positions of a view of `size` nodes, numbered as in the narrower view."""
        renumbered = np.full(size, -1, np.intp)
        renumbered[positions] = np.arange(len(positions))
        moved = renumbered[self.positions]
        kept = moved >= 0
        return RowChanges(moved[kept], self.slots[kept], self.signs[kept])

    @classmethod
    def joined(cls, steps: "Sequence[RowChanges]") -> "RowChanges":
        """Return the changes of several steps as one."""
        return cls(
            np.concatenate([step.positions for step in steps]),
            np.concatenate([step.slots for step in steps]),
            np.concatenate([step.signs for step in steps]),
        )


class Carried(ABC):
    """How a column is computed before any change, and how changes of single nodes' pods are applied to it."""

    @abstractmethod
    def begin(self, rows: NDArray[np.intp]) -> NDArray[Any]:
        """Return the column of some rows as they are, as a new array whose last axis has an entry for each of them."""

    @abstractmethod
    def follow(self, column: NDArray[Any], changes: RowChanges) -> None:
        """Apply changes to the column, in their order."""


C = TypeVar("C", bound=Carried)


class Column(Generic[C]):
    """The values of a column in these worlds, which are read-only, and how to apply more changes to a copy of them."""

    __slots__ = ("carried", "values")

    def __init__(self, values: NDArray[Any], carried: C) -> None:
        self.values = read_only(values)
        self.carried = carried


class OwnWorlds:
    """What is different on each node of a view, change by change, and the columns that were asked for.

    A column is computed once. After that a step costs in proportion to the nodes and the pods that it moves, not to the
    steps before it.
    """

    __slots__ = ("_columns", "_rows", "_steps", "_wider")

    def __init__(self, rows: NDArray[np.intp], wider: "tuple[OwnWorlds, Positions] | None" = None) -> None:
        """The nodes in some rows, without changes, or what is different on some positions of `wider` worlds."""
        self._rows = rows
        self._wider = wider
        self._steps: list[RowChanges] = []
        self._columns: dict[Hashable, Column[Any]] = {}

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self._rows)

    def then(self, changes: RowChanges) -> "OwnWorlds":
        """Return these worlds with more changes."""
        later = OwnWorlds(self._rows, self._wider)
        later._steps = [*self._steps, changes]
        for key, column in self._columns.items():
            values = column.values.copy()
            column.carried.follow(values, changes)
            later._columns[key] = Column(values, column.carried)
        return later

    def at(self, positions: Positions) -> "OwnWorlds":
        """Return the worlds of the nodes at some positions."""
        return OwnWorlds(self._rows[positions], (self, positions))

    def column(self, key: Hashable, carried: Callable[[], C]) -> Column[C]:
        """Return the column of a key, which identifies the object that `carried` creates."""
        known: Column[C] | None = self._columns.get(key)
        if known is not None:
            return known
        if self._wider is None:
            carries = carried()
            values = carries.begin(self._rows)
        else:
            worlds, positions = self._wider
            column = worlds.column(key, carried)
            # Taken with the last axis as it is, rows of matrices stay next to each other in memory.
            values, carries = column.values.take(positions, axis=-1), column.carried
        for step in self._steps:
            carries.follow(values, step)
        known = self._columns[key] = Column(values, carries)
        return known

    def changes(self) -> RowChanges:
        """Return all changes together, in their order."""
        earlier = []
        if self._wider is not None:
            worlds, positions = self._wider
            earlier = [worlds.changes().at(positions, worlds.size)]
        return RowChanges.joined([*earlier, *self._steps])

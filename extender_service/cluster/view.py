"""Nodes as a plugin sees them in one decision: columns at the rows that were asked for."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from extender_service.cluster.images import Image
from extender_service.cluster.kept_columns import KeptColumns
from extender_service.cluster.labels import LabelColumn
from extender_service.cluster.nodes import NodeTable
from extender_service.cluster.pods import PodTable
from extender_service.cluster.resources import HostPort
from extender_service.cluster.volume_support import VolumeSupport
from extender_service.kube.objects import Node, Taint

V = TypeVar("V", bound=np.generic)


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
        """Tell which of `size` nodes are changed."""
        changed = np.zeros(size, np.bool_)
        changed[self.positions] = True
        return changed

    def and_then(self, more: "RowChanges") -> "RowChanges":
        """Return these changes and more of them."""
        both = RowChanges((), (), ())
        both.positions = np.concatenate([self.positions, more.positions])
        both.slots = np.concatenate([self.slots, more.slots])
        both.signs = np.concatenate([self.signs, more.signs])
        return both

    def at(self, positions: NDArray[np.intp], size: int) -> "RowChanges":
        """Return the changes of some positions of a view of `size` nodes, numbered as in the narrower view."""
        renumbered = np.full(size, -1, np.intp)
        renumbered[positions] = np.arange(len(positions))
        moved = renumbered[self.positions]
        kept = moved >= 0
        changes = RowChanges((), (), ())
        changes.positions, changes.slots, changes.signs = moved[kept], self.slots[kept], self.signs[kept]
        return changes


class NodeView:
    """Some rows of the node table, in a given order; every array that it returns has one entry per node, in that order.

    Arrays may be those of the table itself: plugins must not write to them. With `rows` None it is the whole table up
    to its last used row, which needs no copying; `exists` tells which of these rows are nodes.
    """

    def __init__(
        self, table: NodeTable, pods: PodTable, rows: NDArray[np.intp] | None, changes: RowChanges | None = None
    ) -> None:
        self._table = table
        self._pods = pods
        self._rows = rows
        self._size = table.size if rows is None else len(rows)
        self._changes = changes
        self._requested: dict[int, NDArray[np.int64]] = {}
        self._allocatable: dict[int, NDArray[np.int64]] = {}

    def __len__(self) -> int:
        return self._size

    @property
    def table(self) -> NodeTable:
        """The table that these nodes are in."""
        return self._table

    @property
    def rows(self) -> NDArray[np.intp]:
        """The row of each node in the table."""
        return np.arange(self._size) if self._rows is None else self._rows

    @property
    def names(self) -> list[str]:
        """The nodes' names."""
        names: list[str] = self.of_rows(self._table.names).tolist()
        return names

    def name_at(self, position: int) -> str:
        """The name of the node at a position."""
        name: str = self._table.names[position if self._rows is None else self._rows[position]]
        return name

    def names_at(self, positions: NDArray[np.intp]) -> list[str]:
        """The names of the nodes at some positions."""
        names: list[str] = self._table.names[positions if self._rows is None else self._rows[positions]].tolist()
        return names

    @property
    def objects(self) -> list[Node | None]:
        """The nodes as the API server sent them, without their images; None where a row is none."""
        objects = self._table.objects
        return objects[: self._size] if self._rows is None else [objects[row] for row in self._rows.tolist()]

    @property
    def exists(self) -> NDArray[np.bool_]:
        """Which of them are nodes."""
        return self.of_rows(self._table.exists)

    @property
    def unschedulable(self) -> NDArray[np.bool_]:
        """Which of them are cordoned."""
        return self.of_rows(self._table.unschedulable)

    @property
    def taint_set(self) -> NDArray[np.intp]:
        """The number of each node's taints in `taint_sets`."""
        return self.of_rows(self._table.taint_set)

    @property
    def taint_sets(self) -> list[tuple[Taint, ...] | None]:
        """Distinct taint sets by number; None where a number is unused."""
        return self._table.taint_sets.values

    @property
    def volume_support(self) -> NDArray[np.intp]:
        """The number of what each node can do with volumes in `volume_supports`."""
        return self.of_rows(self._table.volume_support)

    @property
    def volume_supports(self) -> list[VolumeSupport | None]:
        """Distinct answers by number; None where a number is unused."""
        return self._table.volume_supports.values

    def port_sets(self) -> tuple[NDArray[np.intp], Sequence[frozenset[HostPort] | None]]:
        """The number of each node's host ports in use, and the distinct sets by number; None for an unused number."""
        numbers, sets = self.of_rows(self._table.port_set), self._table.port_sets.values
        if self._changes is None:
            return numbers, sets
        return _with_changed_ports(numbers, sets, self._changes, self._pods)

    def label(self, key: str) -> tuple[NDArray[np.intp], LabelColumn]:
        """The number of each node's value of a label, or ABSENT, and the column that has the values."""
        column = self._table.label_column(key)
        return self.of_rows(column.numbers), column

    def is_named(self, names: Iterable[str]) -> NDArray[np.bool_]:
        """Which of them have one of these names."""
        row_of = self._table.row_of
        wanted = np.zeros(self._table.capacity, np.bool_)
        wanted[[row_of[name] for name in names if name in row_of]] = True
        return self.of_rows(wanted)

    @property
    def cluster_size(self) -> int:
        """How many nodes there are in all, in this view or not."""
        return self._table.count

    def image(self, name: str) -> Image | None:
        """Return the image of a name, if any node of the cluster has it."""
        return self._table.images.find(name)

    def has_image(self, image: Image) -> NDArray[np.bool_]:
        """Which of them have an image."""
        return self.of_rows(image.on_rows(self._table.capacity))

    def dimension(self, resource: str) -> int:
        """Return the dimension of a resource, or -1 if no node offers it and no pod requests it."""
        return self._table.dimensions.find(resource)

    def allocatable(self, dimension: int) -> NDArray[np.int64]:
        """What each node offers to pods; zeros for dimension -1."""
        known = self._allocatable.get(dimension)
        if known is None:
            known = self._allocatable[dimension] = self._amounts(self._table.allocatable, dimension)
        return known

    def requested(self, dimension: int) -> NDArray[np.int64]:
        """What the pods on each node take of it; zeros for dimension -1."""
        known = self._requested.get(dimension)
        if known is None:
            known = self._amounts(self._table.requested, dimension)
            if self._changes is not None:
                known = known + self._change_of(dimension)
            self._requested[dimension] = known
        return known

    def allocatable_of(self, dimensions: Sequence[int]) -> NDArray[np.int64]:
        """What each node offers of several dimensions, as a new array of (dimension, node)."""
        return self._amounts_of(self._table.allocatable, dimensions)

    def requested_of(self, dimensions: Sequence[int]) -> NDArray[np.int64]:
        """What the pods on each node take of several dimensions, as a new array of (dimension, node)."""
        amounts = self._amounts_of(self._table.requested, dimensions)
        if self._changes is not None:
            for at, dimension in enumerate(dimensions):
                amounts[at] += self._change_of(dimension)
        return amounts

    def pods_among(self, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        """How many of the pods in these slots, each given once, count on each node in its own world."""
        rows = self._pods.row[slots]
        counts: NDArray[np.int64] = self.by_row(np.bincount(rows[rows >= 0], minlength=self._table.capacity))
        if self._changes is not None:
            counts = counts.copy()
            concerned = np.isin(self._changes.slots, slots)
            np.add.at(counts, self._changes.positions[concerned], self._changes.signs[concerned])
        return counts

    def by_row(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return, for each node, what a column kept elsewhere has for its row; 0 beyond the column's end."""
        if len(column) < self._table.capacity:
            column = np.pad(column, (0, self._table.capacity - len(column)))
        return self.of_rows(column)

    def at(self, positions: NDArray[np.intp]) -> "NodeView":
        """Return the nodes at some positions of this view."""
        rows = positions if self._rows is None else self._rows[positions]
        changes = None if self._changes is None else self._changes.at(positions, self._size)
        return NodeView(self._table, self._pods, rows, changes)

    @property
    def changes(self) -> RowChanges | None:
        """What is different in these nodes' own worlds."""
        return self._changes

    def kept_by_facts(self, key: Hashable, work_out: Callable[["NodeView"], NDArray[V]]) -> NDArray[V]:
        """Return what `work_out` makes of these nodes, from what was kept of earlier decisions where that still holds.

        It may go by nothing but the key and what each node says of itself, and answers with an array whose last axis
        has an entry per node. The key names it among all plugins'. The array holds until the cluster changes.
        """
        return self._kept(self._table.by_facts, key, work_out)

    def kept_by_room(self, key: Hashable, work_out: Callable[["NodeView"], NDArray[V]]) -> NDArray[V]:
        """Do the same where `work_out` also goes by what the pods on each node take of it."""
        if self._changes is not None:
            return work_out(self)
        return self._kept(self._table.by_room, key, work_out)

    def _kept(self, kept: KeptColumns, key: Hashable, work_out: Callable[["NodeView"], NDArray[V]]) -> NDArray[V]:
        table, pods, rows = self._table, self._pods, self._rows
        # A few nodes are not worth working out all of them.
        if 4 * self._size < table.size and key not in kept:
            return work_out(self)
        column: NDArray[V] = kept.of(key, table.size, lambda rows: work_out(NodeView(table, pods, rows)))
        if rows is None:
            return column
        return column[rows] if column.ndim == 1 else column.take(rows, axis=1)

    def everywhere(self) -> "NodeView":
        """Return all rows of the table that these nodes are from, as they are without changes."""
        return NodeView(self._table, self._pods, None)

    def of_rows(self, by_row: NDArray[V]) -> NDArray[V]:
        """Pick these nodes' entries of an array that has one for every row."""
        return by_row[: self._size] if self._rows is None else by_row[self._rows]

    def pods_added(self, label_sets: NDArray[np.bool_]) -> NDArray[np.int64]:
        """How many pods more, or fewer, the changes leave on each node, of pods with the label sets that are marked."""
        added = np.zeros(self._size, np.int64)
        if self._changes is not None:
            counting = label_sets[self._pods.label_set[self._changes.slots]]
            np.add.at(added, self._changes.positions[counting], self._changes.signs[counting])
        return added

    def changed(self, changes: RowChanges) -> "NodeView":
        """Return the same nodes, each in its own world: with pods added to it or taken from it, besides what was."""
        together = changes if self._changes is None else self._changes.and_then(changes)
        return NodeView(self._table, self._pods, self._rows, together)

    def position_of(self, name: str) -> int:
        """Return where a node is in this view, -1 if it is not."""
        row = self._table.row_of.get(name, -1)
        if row < 0 or self._rows is None:
            return row
        positions = np.flatnonzero(self._rows == row)
        return int(positions[0]) if len(positions) else -1

    def _amounts(self, matrix: NDArray[np.int64], dimension: int) -> NDArray[np.int64]:
        if 0 <= dimension < len(matrix):
            return self.of_rows(matrix[dimension])
        return np.zeros(self._size, np.int64)

    def _amounts_of(self, matrix: NDArray[np.int64], dimensions: Sequence[int]) -> NDArray[np.int64]:
        amounts = np.zeros((len(dimensions), self._size), np.int64)
        for at, dimension in enumerate(dimensions):
            if 0 <= dimension < len(matrix):
                amounts[at] = matrix[dimension, : self._size] if self._rows is None else matrix[dimension, self._rows]
        return amounts

    def _change_of(self, dimension: int) -> NDArray[np.int64]:
        assert self._changes is not None
        change = np.zeros(self._size, np.int64)
        if 0 <= dimension < self._pods.amounts.shape[1]:
            taken = self._pods.amounts[self._pods.requests[self._changes.slots], dimension]
            np.add.at(change, self._changes.positions, self._changes.signs * taken)
        return change


def _with_changed_ports(
    numbers: NDArray[np.intp],
    sets: Sequence[frozenset[HostPort] | None],
    changes: RowChanges,
    pods: PodTable,
) -> tuple[NDArray[np.intp], Sequence[frozenset[HostPort] | None]]:
    """Apply pods' ports to the sets of their nodes. A set does not count: as in kube-scheduler, taking one of two pods
    with the same port off a node frees the port (HostPortInfo in framework/types.go)."""
    changed_numbers = numbers.copy()
    changed_sets = list(sets)
    # What the same ports make of the same set, many nodes have in common.
    made: dict[tuple[int, int, int], int] = {}
    # Most pods have no ports.
    number_of_none = pods.port_sets.number_of(frozenset())
    concerned = np.flatnonzero(pods.port_set[changes.slots] != number_of_none)
    for position, slot, sign in zip(
        changes.positions[concerned].tolist(),
        changes.slots[concerned].tolist(),
        changes.signs[concerned].tolist(),
        strict=True,
    ):
        step = (int(changed_numbers[position]), int(pods.port_set[slot]), sign)
        if step not in made:
            before, ports = changed_sets[step[0]], pods.ports_of(slot)
            assert before is not None
            made[step] = len(changed_sets)
            changed_sets.append(before | ports if sign > 0 else before - ports)
        changed_numbers[position] = made[step]
    return changed_numbers, changed_sets

"""Nodes as a plugin sees them in one decision: columns of the node table, at the rows of these nodes."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
from numpy.typing import NDArray

from extender_service.caches import cached
from extender_service.cluster.amounts.requests import HostPort
from extender_service.cluster.nodes.images import Image
from extender_service.cluster.nodes.label_columns import LabelColumn
from extender_service.cluster.nodes.node_memory import NodeMemory
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.nodes.volume_support import VolumeSupport
from extender_service.cluster.pods.pod_table import PodTable
from extender_service.cluster.selection.label_sets import PodSelector
from extender_service.cluster.structures.following_columns import RowColumns
from extender_service.cluster.structures.memo import BriefMemo, NoMemo, RowMemo, read_only, require_lasting
from extender_service.cluster.view.hypothetical import OwnWorlds, RowChanges
from extender_service.cluster.view.hypothetical_columns import Added, Measure, PortsInUse, Requested, SlotsOn
from extender_service.cluster.view.pod_info import PodInfo
from extender_service.kube.types.core import Node, Taint

V = TypeVar("V", bound=np.generic)
T = TypeVar("T")
S = TypeVar("S")
A = TypeVarTuple("A")

_NO_MASK = "nodes are selected by their positions, not by a mask: give mask.nonzero()[0]"
_NO_ARRAY = "nodes are selected by an array of their positions: give np.array(positions, np.intp)"


class NodeView:
    """Some rows of the node table, in a given order; every array that it returns has one entry per node, in that order.

    Arrays belong to the table or to a cache, and are not to be written to. A view can be the whole table up
    to its last used row, which needs no copying; `exists` shows which of these rows are nodes.
    """

    _everywhere: "NodeView | None" = None
    # By dimensions.
    _requested: dict[tuple[int, ...], NDArray[np.int64]] | None = None
    # By resource.
    _unoffered: dict[str, NDArray[np.int64]] | None = None
    # The slots of the pods on each node, and the count of changes that they are as of.
    _slots: tuple[int, NDArray[np.object_]] | None = None

    def __init__(
        self, memory: NodeMemory, pods: PodTable, memo: RowMemo | BriefMemo | NoMemo, worlds: OwnWorlds | None = None
    ) -> None:
        """The memo is that of the rows in question."""
        self._memory = memory
        self._table = memory.table
        self._pods = pods
        self._memo = memo
        self._rows = memo.rows
        self._size = memo.size
        self._worlds = worlds

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
        """The names of the nodes at some positions. Raises TypeError for a mask, and for what is no array."""
        try:
            if not positions.dtype.num:  # that of bool is 0
                raise TypeError(_NO_MASK)
        except AttributeError:
            raise TypeError(_NO_ARRAY) from None
        names: list[str] = self._table.names[positions if self._rows is None else self._rows[positions]].tolist()
        return names

    @property
    def objects(self) -> list[Node | None]:
        """The nodes as the API server sent them, without their images; None where a row is unused."""
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
        if self._worlds is None:
            return self.of_rows(self._table.port_set), self._table.port_sets.values
        ports = self._worlds.column("ports", lambda: PortsInUse(self._table, self._pods))
        return ports.values, ports.carried.sets

    def label(self, key: str) -> tuple[NDArray[np.intp], LabelColumn]:
        """The number of each node's value of a label, or ABSENT, and the column that has the values."""
        if self._rows is None:
            return self._memo.of(None, NodeView._label, (self,), (key,))
        # A column may be forgotten and made again, with other numbers: all nodes have the one that counts.
        numbers, column = self.everywhere().label(key)
        return self._memo.of(column, NodeView._label_of_some, (self, numbers, column), (key,))

    def _label(self, key: str) -> tuple[NDArray[np.intp], LabelColumn]:
        column = self._table.label_column(key)
        # Sums by these numbers may be kept for longer than the column stays as it is.
        return read_only(column.numbers[: self._size].copy()), column

    def _label_of_some(
        self, numbers: NDArray[np.intp], column: LabelColumn, _key: str
    ) -> tuple[NDArray[np.intp], LabelColumn]:
        return read_only(self.of_rows(numbers)), column

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
        """Return the dimension of a resource, or UNOFFERED."""
        return self._table.dimensions.find(resource)

    def allocatable(self, dimension: int) -> NDArray[np.int64]:
        """What each node offers to pods, in milli-CPU or in whole units such as bytes; zeros for UNOFFERED."""
        amounts: NDArray[np.int64] = self.allocatable_of((dimension,))[0]
        return amounts

    def requested(self, dimension: int) -> NDArray[np.int64]:
        """What the pods on each node request of it, in the units of `allocatable`; zeros for UNOFFERED."""
        amounts: NDArray[np.int64] = self.requested_of((dimension,))[0]
        return amounts

    def allocatable_of(self, dimensions: tuple[int, ...]) -> NDArray[np.int64]:
        """What each node offers of several dimensions, as (dimension, node), in the units of `allocatable`."""
        return self._memo.of(None, NodeView._allocatable_of, (self,), (dimensions,))

    def _allocatable_of(self, dimensions: tuple[int, ...]) -> NDArray[np.int64]:
        return self._amounts_of(self._table.allocatable, dimensions)

    def requested_of(self, dimensions: tuple[int, ...]) -> NDArray[np.int64]:
        """What the pods on each node request of several dimensions, as (dimension, node), in these units."""
        if self._worlds is None:
            known = self._requested = {} if self._requested is None else self._requested
            if dimensions not in known:
                known[dimensions] = self._amounts_of(self._table.requested, dimensions)
            return known[dimensions]
        carried = self._worlds.column(("requested", dimensions), lambda: Requested(self._table, self._pods, dimensions))
        return carried.values

    def may_overflow(self, resource: str) -> bool:
        """Return whether the sum of what pods request of a resource that no node offers may overflow."""
        return self._pods.may_overflow(resource)

    def requested_of_unoffered(self, resource: str) -> NDArray[np.int64]:
        """What the pods on each node request of a resource that no node offers, and which has no dimension so."""
        known = self._unoffered = {} if self._unoffered is None else self._unoffered
        if resource not in known:
            by_row = np.zeros(self._table.capacity, np.int64)
            self._pods.add_requested_by_row(resource, by_row)
            moved = self.added(("unoffered", resource), partial(self._pods.unoffered_amounts, resource))
            known[resource] = read_only(self.of_rows(by_row) + moved)
        return known[resource]

    def left_of(self, dimensions: tuple[int, ...]) -> NDArray[np.int64]:
        """What each node offers of several dimensions less what its pods request, as (dimension, node)."""
        if self._worlds is None:
            return self._amounts_of(self._table.left, dimensions)
        return self.allocatable_of(dimensions) - self.requested_of(dimensions)

    def requests_of(self, slots: NDArray[np.intp], dimensions: tuple[int, ...]) -> NDArray[np.int64]:
        """What the pods in some slots request of several dimensions, as (dimension, pod); zeros for UNOFFERED."""
        pods = self._pods
        rows, unknown = _rows_of(dimensions, pods.amounts.shape[1])
        requests = pods.requests[slots]
        amounts = pods.amounts[requests, rows].T if isinstance(rows, slice) else pods.amounts[requests[:, None], rows].T
        if unknown:
            amounts[unknown] = 0
        return amounts

    def pods_among(self, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        """How many of the pods in these slots, each given once, count on each node in its own world."""
        rows = self._pods.row[slots]
        # Count into the length that by_row needs: padding later takes longer than counting.
        counts: NDArray[np.int64] = self.by_row(np.bincount(rows[rows >= 0], minlength=self._table.capacity))
        if self._worlds is None:
            return counts
        return counts + self.added(("pods", slots.tobytes()), lambda moved: np.isin(moved, slots).astype(np.int64))

    def has_pod(self, slot: int) -> bool:
        """Return whether there is a pod in a slot."""
        facts = self._pods.facts
        return 0 <= slot < len(facts) and facts[slot] is not None

    def pods_at(self, position: int) -> list[PodInfo]:
        """Return the pods that count on the node at a position, in its own world; in no particular order.

        A pod that stands for several pods alike is there as often.
        """
        pods = self._pods
        if self._worlds is not None:
            slots = self._worlds.column("slots", lambda: SlotsOn(pods)).values
        else:
            if self._slots is None or self._slots[0] != pods.changes.count:
                self._slots = pods.changes.count, SlotsOn(pods).begin(self.rows)
            slots = self._slots[1]
        return [PodInfo(pods, slot) for slot in slots[position]]

    def by_row(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return, for each node, what a column kept elsewhere has for its row; 0 beyond the column's end."""
        needed = self._size if self._rows is None else self._table.capacity
        if len(column) < needed:
            shorter, column = column, np.zeros(needed, column.dtype)  # in a fifth of the time that np.pad takes
            column[: len(shorter)] = shorter
        return self.of_rows(column)

    def at(self, positions: NDArray[np.intp]) -> "NodeView":
        """Return the nodes at some positions of this view. Raises TypeError for a mask, and for what is no array.

        NumPy would take the marks of a mask for the positions 0 and 1.
        """
        try:
            if not positions.dtype.num:  # that of bool is 0
                raise TypeError(_NO_MASK)
        except AttributeError:
            raise TypeError(_NO_ARRAY) from None
        if self._worlds is None:
            nodes = NodeView(self._memory, self._pods, self._memo.at(positions))
            nodes._everywhere = self if self._rows is None else self._everywhere
            return nodes
        rows = positions if self._rows is None else self._rows[positions]
        return NodeView(self._memory, self._pods, BriefMemo(rows, len(rows)), self._worlds.at(positions))

    def to_keep(self) -> "NodeView":
        """Return the same nodes with an empty memo: for a plugin that keeps them longer than the decision."""
        return NodeView(self._memory, self._pods, RowMemo(self._rows, self._size), self._worlds)

    @property
    def changes(self) -> RowChanges | None:
        """What is different in these nodes' own worlds: all changes, in their order."""
        return None if self._worlds is None else self._worlds.changes()

    @property
    def is_changed(self) -> bool:
        """Whether anything may be different in these nodes' own worlds."""
        return self._worlds is not None

    def kept_by_facts(self, function: Callable[["NodeView", *A], NDArray[V]], *arguments: *A) -> NDArray[V]:
        """Return `function(nodes, *arguments)` for these nodes, from earlier decisions where that still holds.

        The result is an array whose last axis has an entry per node. Each entry depends only on the facts of its node
        (labels, annotations, taints, conditions, images, what it offers) and on the arguments. The function is called
        with some of the nodes, those that changed. The array holds until the cluster changes.

        The function and its arguments are the key, so give it all that the result depends on as hashable arguments, and
        make it a function of a module, or a method.
        """
        return self._memo.of(None, NodeView._kept_by_facts, (self,), (function, arguments))

    def _kept_by_facts(self, function: Callable[["NodeView", *A], NDArray[V]], arguments: tuple[*A]) -> NDArray[V]:
        return self._kept(self._memory.by_facts, function, arguments)

    def kept_by_room(self, function: Callable[["NodeView", *A], NDArray[V]], *arguments: *A) -> NDArray[V]:
        """Like kept_by_facts, for results that depend only on what a node offers and what its pods request of it.

        The result for one node may be taken for another that offers and lacks the same.
        """
        if self._worlds is not None:
            return function(self, *arguments)
        return self._kept(self._memory.by_room, function, arguments)

    def remembered(self, function: Callable[["NodeView", *A], T], *arguments: *A) -> T:
        """Return `function(nodes, *arguments)`, from the last time for exactly these nodes if no facts changed since.

        For results that take several nodes together, such as a sum, or a score that depends on the highest. They depend
        only on the facts of the nodes and on the arguments, and are not to be written to. For the key, see
        kept_by_facts.
        """
        return self._memo.of(None, function, (self,), arguments)

    def remembered_at(self, version: S, function: Callable[["NodeView", S, *A], T], *arguments: *A) -> T:
        """Return `function(nodes, version, *arguments)`: like remembered, while the version is the same, too.

        The version stands for what the result depends on besides: a count of changes, or a tuple of counts; or the
        very object that it is computed from, such as the label column whose numbers it holds, or an array of scores.
        """
        return self._memo.of(version, function, (self, version), arguments)

    def _kept(
        self, kept: RowColumns, function: Callable[["NodeView", *A], NDArray[V]], arguments: tuple[*A]
    ) -> NDArray[V]:
        key = (function, arguments)
        column = kept.current(key, self._compute)
        if column is not None:
            values: NDArray[V] = column.shown
        else:
            require_lasting(function)
            # A few nodes are not worth computing the results of all of them.
            if 4 * self._size < self._table.size:
                return function(self, *arguments)
            if kept.admits(key):
                values = kept.start(key, self._table.size, self._compute)
            else:  # of all nodes, since their columns need no copying
                values = read_only(function(self.everywhere(), *arguments))
        rows = self._rows
        if rows is None:
            return values
        return values.take(rows, axis=-1)

    def _compute(self, key: Any, rows: NoMemo) -> NDArray[Any]:
        return compute(self._memory, self._pods, key, rows)

    def everywhere(self) -> "NodeView":
        """Return all rows of the table that these nodes are from, as they are without changes."""
        if self._rows is None and self._worlds is None:
            return self
        everywhere = self._everywhere
        if everywhere is None:
            everywhere = self._everywhere = NodeView(self._memory, self._pods, self._memory.memo())
        return everywhere

    def of_rows(self, by_row: NDArray[V]) -> NDArray[V]:
        """Pick these nodes' entries of an array that has one for every row."""
        return read_only(by_row[: self._size]) if self._rows is None else by_row.take(self._rows, axis=0)

    def added(self, key: Hashable, measure: Measure) -> NDArray[np.int64]:
        """Return by how much the changes raise or lower the sum, on each node, of what `measure` returns for each pod.

        The key identifies the measure among those of all plugins. Each pod is measured once, whatever changes later.
        """
        if self._worlds is None:
            return np.zeros(self._size, np.int64)
        return self._worlds.column(("added", key), lambda: Added(measure)).values

    def pods_added(self, selectors: tuple[PodSelector, ...]) -> NDArray[np.int64]:
        """Return by how much the changes raise or lower each node's number of pods that all of the selectors match."""
        pods = self._pods

        def is_selected(slots: NDArray[np.intp]) -> NDArray[np.int64]:
            return pods.label_sets.matching(selectors)[pods.label_set[slots]].astype(np.int64)

        return self.added(selectors, is_selected)

    def changed(self, changes: RowChanges) -> "NodeView":
        """Return the same nodes, each in its own world: with pods added to it or taken from it, besides what was."""
        worlds = OwnWorlds(self.rows) if self._worlds is None else self._worlds
        return NodeView(self._memory, self._pods, self._memo, worlds.then(changes))

    def position_of(self, name: str) -> int:
        """Return where a node is in this view, -1 if it is not."""
        return int(self.positions_of([name])[0])

    def positions_of(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Return where some nodes are in this view, -1 for those that are not."""
        return self.positions_of_rows(np.array([self._table.row_of.get(name, -1) for name in names], np.intp))

    def positions_of_rows(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where some rows are in this view, -1 for those that are not and for -1."""
        if self._rows is None:
            return rows
        # -1 picks the last entry.
        position_of_row = np.full(self._table.capacity + 1, -1, np.intp)
        position_of_row[self._rows] = np.arange(self._size)
        return position_of_row[rows]

    def _amounts_of(self, matrix: NDArray[np.int64], dimensions: tuple[int, ...]) -> NDArray[np.int64]:
        rows, unknown = _rows_of(dimensions, len(matrix))
        amounts: NDArray[np.int64]
        if isinstance(rows, slice):
            beside = matrix[rows]
            amounts = beside[:, : self._size] if self._rows is None else beside.take(self._rows, axis=1)
        else:
            amounts = matrix[rows, : self._size] if self._rows is None else matrix[rows[:, None], self._rows]
            if unknown:
                amounts[unknown] = 0
        return read_only(amounts)


def compute(memory: NodeMemory, pods: PodTable, key: Any, rows: NoMemo) -> NDArray[Any]:
    """Return what the function in a key of kept_by_facts or kept_by_room returns for the nodes in some rows."""
    function, arguments = key
    values: NDArray[Any] = function(NodeView(memory, pods, rows), *arguments)
    return values


@cached("rows of dimensions", most_entries=1024, most_entry_bytes=3 << 10, most_size=32)
def _rows_of(dimensions: tuple[int, ...], size: int) -> tuple[NDArray[np.intp] | slice, list[int]]:
    """Where a matrix of `size` dimensions has these, and which of them it does not have.

    Where they lie side by side it is a slice, which copies nothing.
    """
    unknown = [at for at, dimension in enumerate(dimensions) if not 0 <= dimension < size]
    if dimensions and not unknown and dimensions == tuple(range(dimensions[0], dimensions[0] + len(dimensions))):
        return slice(dimensions[0], dimensions[-1] + 1), unknown
    return np.array(dimensions, np.intp).clip(0, size - 1), unknown

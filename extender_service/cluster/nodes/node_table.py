"""The table of nodes: one row per node, one column per fact that plugins read."""

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import repeat

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from extender_service.cluster.amounts.dimensions import POD_COUNT, Dimensions
from extender_service.cluster.amounts.requests import HostPort, node_allocatable
from extender_service.cluster.nodes.images import Images
from extender_service.cluster.nodes.label_columns import LabelColumn, LabelColumns
from extender_service.cluster.nodes.volume_support import VolumeSupport, volume_support
from extender_service.cluster.structures.change_log import ChangeLog
from extender_service.cluster.structures.growing_columns import GrowingColumns, column
from extender_service.cluster.structures.interning import Interner
from extender_service.kube.types.core import Node, Taint, condition_statuses
from extender_service.kube.types.storage import CSINode

# Names that are looked up at once.
_MANY_NAMES = 256
_FIRST_CAPACITY = 64
_NO_LABELS: Mapping[str, str] = {}


class NodeTable(GrowingColumns):
    """Rows of nodes. A row keeps its number while its node or a pod on it is known, or while it is held, and is reused
    afterwards.

    Columns have room for `capacity` rows, of which `size` have been used:

    - `exists`: the node itself is known (a pod may come before its node, and stay after it)
    - `allocatable`, `requested`, and `left`, the first less the second: int64, dimension by row (see `dimensions`);
      beyond int64 they wrap, as in Go
    - `names`, "" for an unused row; `membership` changes whenever the rows in use or those of nodes do
    - `unschedulable`; `taint_set`, `port_set`, `volume_support`: numbers in `taint_sets`, `port_sets` and
      `volume_supports`
    - `label_columns`, through `label_column`
    - `images`; `objects` are the nodes without theirs

    `fact_changes` logs the rows that are new or whose node changed, `amount_changes` also those whose requests did.
    """

    names = column(np.object_, empty="")
    exists = column(np.bool_)
    unschedulable = column(np.bool_)
    allocatable = column(np.int64, by_dimension=True)
    requested = column(np.int64, by_dimension=True)
    left = column(np.int64, by_dimension=True)
    # 0 is the number of no taints, of no ports and of no support: the constructor holds these first.
    taint_set = column(np.intp)
    port_set = column(np.intp)
    volume_support = column(np.intp)

    def __init__(self, dimensions: Dimensions | None = None) -> None:
        self.dimensions = dimensions or Dimensions()
        super().__init__(_FIRST_CAPACITY, self.dimensions.capacity)
        self.size = 0
        self.count = 0
        self.membership = 0
        self.row_of: dict[str, int] = {}
        self.objects: list[Node | None] = []
        self.taint_sets: Interner[tuple[Taint, ...]] = Interner()
        self.port_sets: Interner[frozenset[HostPort]] = Interner()
        self.volume_supports: Interner[VolumeSupport] = Interner()
        self.taint_sets.hold(())
        self.port_sets.hold(frozenset())
        self.volume_supports.hold(VolumeSupport())
        self.images = Images()
        self.fact_changes: ChangeLog[int] = ChangeLog()
        self.amount_changes: ChangeLog[int] = ChangeLog()
        self._csi_nodes: dict[str, CSINode] = {}
        # How often each row is held.
        self._held: Counter[int] = Counter()
        self._ports: dict[int, Counter[HostPort]] = {}
        self.label_columns = LabelColumns()
        self._free: list[int] = []
        # The membership when the names were packed.
        self._packed_at = 0

    @property
    def capacity(self) -> int:
        """Rows that the columns have room for."""
        return len(self.exists)

    def apply(self, node: Node) -> bool:
        """Add or update a node; returns whether anything changed that a pod may be waiting for.

        Raises QuantityError for a malformed quantity, and changes nothing then.
        """
        name, images = node.metadata.name, node.status.images
        node = _without_images(node)
        row = self.row_of.get(name, -1)
        old = self.objects[row] if row >= 0 else None
        if old is not None and _same_facts(old, node):
            self.objects[row] = node
            if self.images.set(row, images):
                self._log_change(row)
            return False
        allocatable = node_allocatable(node.status.allocatable)
        if row < 0:
            row = self.row_for(name)
        if old is None:
            self.count += 1
            self.membership += 1
            self.exists[row] = True
        self.objects[row] = node
        self._set_allocatable(row, old, allocatable)
        self.unschedulable[row] = node.spec.unschedulable
        before = int(self.taint_set[row])
        self.taint_set[row] = self.taint_sets.hold(_without_times(node.spec.taints))
        self.taint_sets.release(before)
        self.label_columns.set(row, node.metadata.labels)
        self._set_volume_support(row)
        self.images.set(row, images)
        self._log_change(row)
        return True

    def remove(self, name: str) -> bool:
        """Forget a node, though not the pods on it; returns whether it was known."""
        row = self.row_of.get(name, -1)
        old = self.objects[row] if row >= 0 else None
        if old is None:
            return False
        self.count -= 1
        self.membership += 1
        self.exists[row] = False
        self.objects[row] = None
        self._set_allocatable(row, old, {})
        self.unschedulable[row] = False
        self.taint_sets.release(int(self.taint_set[row]))
        self.taint_set[row] = self.taint_sets.hold(())
        self.label_columns.set(row, _NO_LABELS)
        self._set_volume_support(row)
        self.images.set(row, ())
        self._log_change(row)
        self._free_if_unused(row)
        return True

    def apply_csi_node(self, name: str, csi_node: CSINode | None) -> None:
        """Take over what a node's CSINode says, or that there is none; it may come before the node."""
        if csi_node is not None:
            self._csi_nodes[name] = csi_node
        else:
            self._csi_nodes.pop(name, None)
        if self.is_node(name):
            self._set_volume_support(self.row_of[name])
            self._log_change(self.row_of[name])

    def row_for(self, name: str) -> int:
        """Return the row of a node, known or not yet; a new one holds nothing until a pod or the node comes."""
        row = self.row_of.get(name, -1)
        if row >= 0:
            return row
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self.size
            if row == self.capacity:
                self._grow(2 * row)
            self.size += 1
            self.membership += 1
            self.names[row] = name
            self.objects.append(None)
            self.label_columns.set(row, _NO_LABELS)
            self.port_sets.hold(frozenset())
            self.taint_sets.hold(())
            self.volume_supports.hold(VolumeSupport())
            self._log_change(row)
        self.row_of[name] = row
        return row

    def hold_row(self, name: str) -> int:
        """Return the row of a node, which keeps its number until it is released as often as it is held."""
        row = self.row_for(name)
        self._held[row] += 1
        return row

    def release_row(self, row: int) -> None:
        """Let a row go that was held."""
        self._held[row] -= 1
        if not self._held[row]:
            del self._held[row]
            self._free_if_unused(row)

    def add_pod(self, row: int, amounts: NDArray[np.int64], ports: frozenset[HostPort]) -> None:
        """Count a pod on a row; `amounts` hold what it requests by dimension."""
        self._add_amounts(row, amounts)
        if ports:
            self._ports.setdefault(row, Counter()).update(ports)
            self._set_ports(row)

    def remove_pod(self, row: int, amounts: NDArray[np.int64], ports: frozenset[HostPort]) -> None:
        """Take a pod off a row that it was added to."""
        self._add_amounts(row, -amounts)
        if ports:
            self._ports[row].subtract(ports)
            self._ports[row] = +self._ports[row]
            self._set_ports(row)
        self._free_if_unused(row)

    def set_requested(self, dimension: int, by_row: NDArray[np.int64]) -> None:
        """Take over what the pods on each row request of a resource that a node offers now, or no node any more."""
        rows = (self.requested[dimension] != by_row).nonzero()[0].tolist()
        self.requested[dimension] = by_row
        self.left[dimension] = self.allocatable[dimension] - by_row
        for row in rows:
            self.amount_changes.append(row)

    def amounts_key(self, row: int) -> bytes:
        """Return the same for two rows with nodes that offer the same, of which the pods take the same."""
        return self.dimensions.reused + self.allocatable[:, row].tobytes() + self.requested[:, row].tobytes()

    def rows_named(self, names: Collection[str]) -> NDArray[np.intp]:
        """Return the row of each name, -1 for a node that does not exist."""
        if len(names) >= _MANY_NAMES and self.membership - self._packed_at > len(self.row_of) // 8:
            self._pack_names()
        rows = np.fromiter(map(self.row_of.get, names, repeat(-1)), np.intp, len(names))
        return np.where((rows >= 0) & self.exists[rows], rows, -1)

    def _pack_names(self) -> None:
        """Lay the names side by side in memory, where a look-up of many takes a third of the time: each came with an
        object of its own, and so lies somewhere else."""
        self._packed_at = self.membership
        self.row_of = {name.encode().decode(): row for name, row in self.row_of.items()}
        self.names[list(self.row_of.values())] = list(self.row_of)

    def node(self, name: str) -> Node | None:
        """Return a node as the API server sent it, without its images; None if there is none of this name."""
        row = self.row_of.get(name)
        return None if row is None else self.objects[row]

    def is_node(self, name: str) -> bool:
        """Return whether a node of this name exists."""
        row = self.row_of.get(name, -1)
        return row >= 0 and bool(self.exists[row])

    def label_column(self, key: str) -> LabelColumn:
        """Return the column of a label key."""
        return self.label_columns.column(key, self.capacity)

    def copy(self) -> "NodeTable":
        """Return a table that can be changed without changing this one, for nodes that a request brings along."""
        twin = NodeTable(self.dimensions.copy())
        twin.size, twin.count = self.size, self.count
        self.copy_columns_to(twin)
        twin.row_of, twin.objects = self.row_of.copy(), self.objects.copy()
        twin.label_columns = self.label_columns.copy()
        twin.taint_sets, twin.port_sets = self.taint_sets.copy(), self.port_sets.copy()
        twin.volume_supports, twin._csi_nodes = self.volume_supports.copy(), self._csi_nodes
        twin.images = self.images.copy()
        twin._ports = {row: ports.copy() for row, ports in self._ports.items()}
        twin._free, twin._held = self._free.copy(), self._held.copy()
        return twin

    def _set_allocatable(self, row: int, old: Node | None, allocatable: Mapping[str, int]) -> None:
        dimensions = {self.dimensions.hold(resource): amount for resource, amount in allocatable.items()}
        if self.dimensions.size > len(self.allocatable):
            self.resize_columns(self.capacity, self.dimensions.capacity)
        self.allocatable[:, row] = 0
        for dimension, amount in dimensions.items():
            self.allocatable[dimension, row] = amount
        self.left[:, row] = self.allocatable[:, row] - self.requested[:, row]
        if old is not None:
            for resource in node_allocatable(old.status.allocatable):
                self.dimensions.release(resource)

    def _add_amounts(self, row: int, amounts: NDArray[np.int64]) -> None:
        count = len(amounts)
        requested, left = self.requested[:count, row], self.left[:count, row]
        requested += amounts
        left -= amounts
        self.amount_changes.append(row)

    def _log_change(self, row: int) -> None:
        self.fact_changes.append(row)
        self.amount_changes.append(row)

    def _set_volume_support(self, row: int) -> None:
        node = self.objects[row]
        support = VolumeSupport()
        if node is not None:
            support = volume_support(node_allocatable(node.status.allocatable), self._csi_nodes.get(self.names[row]))
        before = int(self.volume_support[row])
        self.volume_support[row] = self.volume_supports.hold(support)
        self.volume_supports.release(before)

    def _set_ports(self, row: int) -> None:
        if not self._ports[row]:
            del self._ports[row]
        before = int(self.port_set[row])
        self.port_set[row] = self.port_sets.hold(frozenset(self._ports.get(row, ())))
        self.port_sets.release(before)

    def _free_if_unused(self, row: int) -> None:
        if self.objects[row] is None and self.requested[POD_COUNT, row] == 0 and row not in self._held:
            del self.row_of[self.names[row]]
            self.names[row] = ""
            self._free.append(row)

    def _grow(self, capacity: int) -> None:
        self.resize_columns(capacity, self.dimensions.capacity)
        self.label_columns.grow(capacity)


def _without_images(node: Node) -> Node:
    return structs.replace(node, status=structs.replace(node.status, images=())) if node.status.images else node


def _without_times(taints: tuple[Taint, ...]) -> tuple[Taint, ...]:
    """Taints as nodes share them, whenever each node got its own."""
    if not any(taint.time_added for taint in taints):
        return taints
    return tuple([Taint(taint.key, taint.value, taint.effect) for taint in taints])


def _same_facts(old: Node, new: Node) -> bool:
    before, after = old.status, new.status
    return (
        old.spec == new.spec
        and before.allocatable == after.allocatable
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and before.declared_features == after.declared_features
        # A heartbeat leaves them equal: their times are not decoded.
        and (before.conditions == after.conditions or condition_statuses(old) == condition_statuses(new))
    )

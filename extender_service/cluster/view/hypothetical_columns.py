"""Columns that depend on the pods of each node, kept current as pods are added or removed in the nodes' own worlds."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.amounts.requests import HostPort
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.pods.pod_table import PodTable
from extender_service.cluster.structures.ranks import rank_in_group
from extender_service.cluster.view.hypothetical import Carried, RowChanges

# From slots of pods to an amount for each pod.
Measure = Callable[[NDArray[np.intp]], NDArray[np.int64]]


class Added(Carried):
    """By how much the changes raise or lower the sum, on each node, of what `measure` returns for a pod."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure

    def begin(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return zeros: nothing is added yet."""
        return np.zeros(len(rows), np.int64)

    def follow(self, column: NDArray[np.int64], changes: RowChanges) -> None:
        """Add the amounts of pods that were added, and subtract those of pods that were removed."""
        np.add.at(column, changes.positions, changes.signs * self._measure(changes.slots))


class Requested(Carried):
    """What the pods on each node request of several dimensions, as (dimension, node)."""

    def __init__(self, table: NodeTable, pods: PodTable, dimensions: Sequence[int]) -> None:
        self._table = table
        self._pods = pods
        self._dimensions = dimensions

    def begin(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return what the pods that count on these rows request."""
        amounts = np.zeros((len(self._dimensions), len(rows)), np.int64)
        for at, dimension in enumerate(self._dimensions):
            if 0 <= dimension < len(self._table.requested):
                amounts[at] = self._table.requested[dimension, rows]
        return amounts

    def follow(self, column: NDArray[np.int64], changes: RowChanges) -> None:
        """Add the requests of pods that were added, and subtract those of pods that were removed."""
        requests = self._pods.requests[changes.slots]
        for of_dimension, dimension in zip(column, self._dimensions, strict=True):
            if 0 <= dimension < self._pods.amounts.shape[1]:
                amounts = self._pods.amounts[:, dimension][requests]
                np.add.at(of_dimension, changes.positions, changes.signs * amounts)


class SlotsOn(Carried):
    """The slots of the pods that count on each node, as a tuple. One that is added several times, in place of pods
    alike, is there as often."""

    def __init__(self, pods: PodTable) -> None:
        self._pods = pods

    def begin(self, rows: NDArray[np.intp]) -> NDArray[np.object_]:
        """Return the slots of the pods that count on these rows."""
        slots = np.isin(self._pods.row, rows).nonzero()[0]
        slots = slots[np.argsort(self._pods.row[slots], kind="stable")]
        by_row = self._pods.row[slots]
        begins, ends = by_row.searchsorted(rows), by_row.searchsorted(rows, "right")
        column = np.empty(len(rows), np.object_)
        for position, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
            column[position] = tuple(slots[begin:end].tolist())
        return column

    def follow(self, column: NDArray[np.object_], changes: RowChanges) -> None:
        """Add the pods that were added, and leave out those that were removed."""
        moves = zip(changes.positions.tolist(), changes.slots.tolist(), changes.signs.tolist(), strict=True)
        for position, slot, sign in moves:
            slots = column[position]
            if sign > 0:
                column[position] = (*slots, slot)
            elif slot in slots:
                at = slots.index(slot)
                column[position] = slots[:at] + slots[at + 1 :]


class PortsInUse(Carried):
    """The number of each node's host ports in use, in `sets`: the table's sets and those that result from changes.

    A set keeps no counts: as in kube-scheduler, removing one of two pods with the same port from a node frees the port
    (HostPortInfo in framework/types.go). So the order of changes matters.
    """

    def __init__(self, table: NodeTable, pods: PodTable) -> None:
        self.sets: list[frozenset[HostPort] | None] = list(table.port_sets.values)
        self._table = table
        self._pods = pods
        # The set that results from a set, a pod's ports and a sign: many nodes share it.
        self._made: dict[tuple[int, int, int], int] = {}

    def begin(self, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the ports of the pods that count on these rows."""
        return self._table.port_set[rows]

    def follow(self, column: NDArray[np.intp], changes: RowChanges) -> None:
        """Add pods' ports to the sets of their nodes, or remove them; on each node one pod after the other."""
        # Most pods have no ports.
        port_sets = self._pods.port_set[changes.slots]
        concerned = np.flatnonzero(port_sets != self._pods.port_sets.number_of(frozenset()))
        if not len(concerned):
            return
        concerned = concerned[np.argsort(changes.positions[concerned], kind="stable")]
        ranks = rank_in_group(changes.positions[concerned])
        for rank in range(int(ranks.max()) + 1):
            now = concerned[ranks == rank]
            positions = changes.positions[now]
            column[positions] = self._after(column[positions], port_sets[now], changes.signs[now])

    def _after(
        self, numbers: NDArray[np.intp], port_sets: NDArray[np.intp], signs: NDArray[np.int64]
    ) -> NDArray[np.intp]:
        """The number of each set with the ports of a pod, or without them."""
        steps = (numbers * self._pods.port_sets.size + port_sets) * 2 + (signs > 0)
        distinct, first, which = np.unique(steps, return_index=True, return_inverse=True)
        made = np.empty(len(distinct), np.intp)
        for at, index in enumerate(first.tolist()):
            made[at] = self._made_of(int(numbers[index]), int(port_sets[index]), int(signs[index]))
        return made[which]

    def _made_of(self, number: int, port_set: int, sign: int) -> int:
        step = (number, port_set, sign)
        made = self._made.get(step)
        if made is None:
            before, ports = self.sets[number], self._pods.port_sets.values[port_set]
            assert before is not None
            assert ports is not None
            made = self._made[step] = len(self.sets)
            self.sets.append(before | ports if sign > 0 else before - ports)
        return made

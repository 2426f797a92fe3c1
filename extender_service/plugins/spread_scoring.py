"""How many pods of a kind are near each node already, weighed by topology (podtopologyspread/scoring.go)."""

import math
from collections.abc import Sequence

import numpy as np

from extender_service.cluster.cluster import Cluster
from extender_service.cluster.labels import ABSENT
from extender_service.cluster.view import NodeView
from extender_service.kube.objects import Pod
from extender_service.plugins.node_matching import Mask
from extender_service.plugins.spread_constraints import (
    Inclusion,
    SpreadConstraint,
    have_labels,
    pods_by_row,
    pods_by_value,
    queries,
    topology_keys,
)
from extender_service.plugins.topology import Amounts, Numbers, all_have_label, has_label

_HOSTNAME = "kubernetes.io/hostname"


class SpreadPreference:
    """The constraints of a pod that should hold, with the pods counted that are near each node; less is better.

    With `needs_all_keys`, nodes without one of the topology keys are ignored.
    """

    def __init__(
        self,
        cluster: Cluster,
        pod: Pod,
        constraints: Sequence[SpreadConstraint],
        feasible: NodeView,
        *,
        needs_all_keys: bool,
    ) -> None:
        self._cluster = cluster
        self._constraints = constraints
        self._queries = queries(pod, constraints)
        self._keys_needed = topology_keys(constraints) if needs_all_keys else ()
        everywhere = feasible.everywhere()
        inclusion = Inclusion(everywhere, pod, self._keys_needed)
        ignored = self.ignored(feasible)
        # By topology key: the pods by the number of the label's value. Hosts count by row.
        by_value: dict[str, Amounts] = {}
        sizes: list[int] = []
        for constraint, query in zip(constraints, self._queries, strict=True):
            key = constraint.topology_key
            if key == _HOSTNAME:
                sizes.append(len(feasible) - (0 if ignored is None else int(np.count_nonzero(ignored))))
                continue
            # Constraints with the same key count together, under the first one's size.
            sizes.append(0 if key in by_value else self._topologies(feasible, key))
            numbers, size = _numbers(everywhere, key)
            pods = pods_by_value(cluster, query, numbers, size, inclusion.of(constraint))
            by_value[key] = by_value[key] + pods if key in by_value else pods
        self._weights = [math.log(size + 2) for size in sizes]
        self._by_value = by_value

    def ignored(self, nodes: NodeView) -> Mask | None:
        """Tell which nodes take no part, and score 0; None if all do."""
        return nodes.remembered(("ignored in spreading", self._keys_needed), lambda: self._ignored(nodes))

    def scores(self, nodes: NodeView) -> Amounts:
        """Add up the pods near each node, in every topology, each weighed by how many such topologies there are."""
        total = np.zeros(len(nodes))
        for constraint, query, weight in zip(self._constraints, self._queries, self._weights, strict=True):
            key, allowance = constraint.topology_key, float(constraint.max_skew - 1)
            if key == _HOSTNAME:
                pods = nodes.of_rows(pods_by_row(self._cluster, query, nodes.table.size))
                scores = pods * weight
                scores += allowance
                if not all_have_label(nodes, key):
                    scores *= has_label(nodes, key)
                total += scores
            else:
                scores = self._by_value[key] * weight + allowance
                scores[ABSENT] = 0.0
                total += scores[nodes.label(key)[0]]
        # To the nearest, a half upwards (none is negative).
        rounded: Amounts = (2 * total).astype(np.int64) - total.astype(np.int64)
        ignored = self.ignored(nodes)
        if ignored is not None:
            rounded[ignored] = 0
        return rounded

    def _ignored(self, nodes: NodeView) -> Mask | None:
        ignored = ~have_labels(nodes, self._keys_needed)
        return ignored if ignored.any() else None

    def _topologies(self, nodes: NodeView, key: str) -> int:
        """How many topologies the nodes are in; those without the label, where not all are needed, make one."""
        return nodes.remembered(("topologies", key, self._keys_needed), lambda: self._count_topologies(nodes, key))

    def _count_topologies(self, nodes: NodeView, key: str) -> int:
        numbers, size = _numbers(nodes, key)
        ignored = self.ignored(nodes)
        seen = np.zeros(size + 1, np.bool_)
        seen[numbers if ignored is None else numbers[~ignored]] = True
        return int(np.count_nonzero(seen))


def _numbers(nodes: NodeView, key: str) -> tuple[Numbers, int]:
    """The numbers of the nodes' values, of which no label and an empty one are the same here; and how many."""
    numbers, column = nodes.label(key)
    empty = column.values.number_of("")
    if empty >= 0:
        numbers = nodes.remembered(("label or empty", key), lambda: np.where(numbers == ABSENT, empty, numbers))
    return numbers, column.values.size

"""How many pods of a kind are near each node already, weighed by topology (podtopologyspread/scoring.go)."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import ABSENT, LabelColumn
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.kube.types.core import Pod
from extender_service.plugins.pod_topology_spread.constraints import (
    Constraints,
    Inclusion,
    SpreadConstraint,
    SpreadRules,
    have_labels,
    pods_by_row,
    pods_by_value,
)
from extender_service.plugins.shared.node_matching import Mask
from extender_service.plugins.shared.topology import Amounts, Numbers, all_have_label, has_label

_HOSTNAME = "kubernetes.io/hostname"
# The highest number below a half: unlike a half, it never takes one below a half up to the next integer.
_NEARLY_HALF = math.nextafter(0.5, 0.0)


class SpreadPreference:
    """The constraints of a pod that should hold, with the pods counted that are near each node; less is better.

    With `needs_all_keys`, nodes without one of the topology keys are ignored.
    """

    def __init__(
        self,
        cluster: Cluster,
        pod: Pod,
        constraints: Constraints,
        feasible: NodeView,
        rules: SpreadRules,
        *,
        needs_all_keys: bool,
    ) -> None:
        self._cluster = cluster
        self._constraints = constraints
        self._keys_needed = constraints.topology_keys if needs_all_keys else ()
        keys = constraints.topology_keys
        self._weights = feasible.remembered(_weights, keys, self._keys_needed)
        everywhere = feasible.everywhere()
        inclusion = Inclusion(everywhere, pod, self._keys_needed, rules.matches)
        # The pods by the number of the label's value. Hosts count by row.
        self._by_value: dict[SpreadConstraint, Amounts] = {}
        for constraint, query in zip(constraints.each, constraints.queries, strict=True):
            key = constraint.topology_key
            if key != _HOSTNAME:
                numbers, size = _numbers(everywhere, key)
                included = inclusion.masks[inclusion.number_of(constraint)]
                self._by_value[constraint] = pods_by_value(cluster, query, numbers, size, included)
        if len(keys) < len(constraints.each):
            weights = dict(zip(keys, self._weights, strict=True))
            if rules.counts_apart:
                self._weights = tuple([weights[constraint.topology_key] for constraint in constraints.each])
            else:
                self._weights = _weights_together(constraints, weights)
                self._by_value = self._counted_together()

    def _counted_together(self) -> dict[SpreadConstraint, Amounts]:
        """Add up the pods of constraints with the same key, as releases before 1.33 do."""
        counted = [constraint for constraint in self._constraints.each if constraint in self._by_value]
        sums: dict[str, Amounts] = {}
        for constraint in counted:
            key, pods = constraint.topology_key, self._by_value[constraint]
            sums[key] = sums[key] + pods if key in sums else pods
        return {constraint: sums[constraint.topology_key] for constraint in counted}

    def ignored(self, nodes: NodeView) -> Mask | None:
        """Return the nodes that take no part and score 0; None if all take part."""
        return nodes.remembered(_ignored, self._keys_needed)

    def scores(self, nodes: NodeView) -> Amounts:
        """Add up the pods near each node, in every topology, each weighed by how many such topologies there are."""
        total: NDArray[Any] | None = None
        scores: NDArray[Any]
        constraints = self._constraints
        for constraint, query, weight in zip(constraints.each, constraints.queries, self._weights, strict=True):
            key, allowance = constraint.topology_key, float(constraint.max_skew - 1)
            if key == _HOSTNAME:
                # Converted first, in half the time.
                scores = nodes.of_rows(pods_by_row(self._cluster, query, nodes.table.size)).astype(np.float64)
                scores *= weight
                scores += allowance
                if not all_have_label(nodes, key):
                    scores *= has_label(nodes, key)
            else:
                by_value = self._by_value[constraint] * weight
                by_value += allowance
                by_value[ABSENT] = 0.0
                scores = by_value.take(nodes.label(key)[0])  # ABSENT is the last
            if total is None:
                total = scores
            else:
                total += scores
        assert total is not None
        # To the nearest, a half upwards (none is negative).
        total += _NEARLY_HALF
        rounded: Amounts = total.astype(np.int64)
        ignored = self.ignored(nodes)
        if ignored is not None:
            rounded[ignored] = 0
        return rounded


def _ignored(nodes: NodeView, keys: tuple[str, ...]) -> Mask | None:
    """Return the nodes that lack one of the labels; None if all nodes have them."""
    return None if all(all_have_label(nodes, key) for key in keys) else ~have_labels(nodes, keys)


def _weights(nodes: NodeView, keys: tuple[str, ...], keys_needed: tuple[str, ...]) -> tuple[float, ...]:
    """Return the weight of a pod near a node, by key: it grows with the number of topologies of these nodes."""
    return tuple([_weight(size) for size in _sizes(nodes, keys, keys_needed)])


def _weights_together(constraints: Constraints, weights: Mapping[str, float]) -> tuple[float, ...]:
    """Return the weights where constraints with the same key are counted together: from the second one on, they weigh
    as if there were no topologies, unless they are about hosts."""
    by_constraint = []
    seen: set[str] = set()
    for constraint in constraints.each:
        key = constraint.topology_key
        by_constraint.append(_weight(0) if key in seen and key != _HOSTNAME else weights[key])
        seen.add(key)
    return tuple(by_constraint)


def _weight(topologies: int) -> float:
    return math.log(topologies + 2)


def _sizes(nodes: NodeView, keys: tuple[str, ...], keys_needed: tuple[str, ...]) -> Iterator[int]:
    """Yield how many topologies of each key the nodes are in."""
    ignored = nodes.remembered(_ignored, keys_needed)
    for key in keys:
        if key == _HOSTNAME:
            yield len(nodes) - (0 if ignored is None else int(np.count_nonzero(ignored)))
        else:
            yield _count_topologies(nodes, key, ignored)


def _count_topologies(nodes: NodeView, key: str, ignored: Mask | None) -> int:
    """Return how many topologies the nodes are in; nodes without the label that are not ignored count as one more."""
    numbers, size = _numbers(nodes, key)
    seen = np.zeros(size + 1, np.bool_)
    seen[numbers if ignored is None else numbers[~ignored]] = True
    return int(np.count_nonzero(seen))


def _numbers(nodes: NodeView, key: str) -> tuple[Numbers, int]:
    """Return the numbers of the nodes' values, where a missing label counts as an empty value; and how many values
    there are."""
    numbers, column = nodes.label(key)
    if column.values.number_of("") != ABSENT:
        numbers = nodes.remembered_at(column, _with_empty, key)
    return numbers, column.values.size


def _with_empty(nodes: NodeView, column: LabelColumn, key: str) -> Numbers:
    numbers, _ = nodes.label(key)
    return np.where(numbers == ABSENT, column.values.number_of(""), numbers)

"""How uneven a pod would make the spread over topologies, for each node (podtopologyspread/filtering.go)."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import ABSENT, LabelColumn
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.kube.types.core import Pod
from extender_service.plugins.pod_topology_spread.constraints import (
    Constraints,
    Inclusion,
    Policies,
    SpreadConstraint,
    SpreadRules,
    included,
    pods_by_value,
)
from extender_service.plugins.shared.node_matching import Mask
from extender_service.plugins.shared.topology import Amounts, all_have_label, has_label

# What can be wrong with a node.
LACKS_LABEL, IS_UNEVEN = 1, 2

# The count of a topology that does not exist (math.MaxInt32).
_MANY = 2**31 - 1


class _Domains(msgspec.Struct):
    """The topologies of one constraint: `pods` by the number of the label's value, and an entry for nodes without it.

    `least` is the fewest pods in a topology, `fewest` the number of a topology with so few, and `second` the fewest in
    any other; `count` topologies are eligible.
    """

    pods: Amounts
    count: int
    least: int
    fewest: int
    second: int


class SpreadRequirement:
    """The constraints of a pod that must hold. Pods are counted once for each table of nodes, when first needed."""

    def __init__(self, cluster: Cluster, pod: Pod, constraints: Constraints, rules: SpreadRules) -> None:
        self.constraints = constraints
        self._cluster = cluster
        self._pod = pod
        self._table: NodeTable | None = None
        self._included: list[Mask] = []
        self._matches = rules.matches
        # The numbers of constraints that are counted together.
        self._groups = _groups(constraints.each, apart=rules.counts_apart)
        self._group_of = {constraints.each[index]: group for group in self._groups for index in group}
        self._domains: dict[SpreadConstraint, _Domains] = {}

    def failing(self, constraint: SpreadConstraint, nodes: NodeView) -> NDArray[np.intp] | None:
        """Return a number per node: 0 (it holds), LACKS_LABEL or IS_UNEVEN; None if it holds on all nodes."""
        self._count(nodes)
        key = constraint.topology_key
        domains = self._domains[constraint]
        has_too_few = domains.count < constraint.min_domains
        most = constraint.max_skew - int(constraint.selector.matches(self._pod.metadata.labels))
        numbers, _ = nodes.label(key)
        if domains.count and nodes.is_changed:
            added = self._added(constraint, nodes)
            pods = domains.pods[numbers] + added
            elsewhere = np.where(numbers == domains.fewest, domains.second, domains.least)
            least = 0 if has_too_few else np.where(added != 0, np.minimum(pods, elsewhere), domains.least)
            return np.where(has_label(nodes, key), np.where(pods - least > most, IS_UNEVEN, 0), LACKS_LABEL)
        by_value = np.zeros(len(domains.pods), np.intp)
        if domains.count:
            by_value[domains.pods - (0 if has_too_few else domains.least) > most] = IS_UNEVEN
        by_value[ABSENT] = 0
        if all_have_label(nodes, key) and not by_value.any():
            return None
        by_value[ABSENT] = LACKS_LABEL
        return by_value.take(numbers)

    def _count(self, nodes: NodeView) -> None:
        if self._table is nodes.table:
            return
        self._table = nodes.table
        everywhere = nodes.everywhere()
        constraints = self.constraints.each
        inclusion = Inclusion(everywhere, self._pod, self.constraints.topology_keys, self._matches)
        numbers = [inclusion.number_of(constraint) for constraint in constraints]
        self._included = [inclusion.masks[number] for number in numbers]
        keys = [constraints[group[0]].topology_key for group in self._groups]
        columns = tuple([everywhere.label(key)[1] for key in keys])
        policies = tuple([tuple([numbers[index] for index in group]) for group in self._groups])
        values = everywhere.remembered_at(columns, _values, tuple(keys), policies, tuple(inclusion.policies))
        self._domains = {}
        for group, eligible in zip(self._groups, values.by_key, strict=True):
            domains = self._domains_of(group, eligible, everywhere)
            for index in group:
                self._domains[constraints[index]] = domains

    def _domains_of(self, group: Sequence[int], values: NDArray[np.intp], everywhere: NodeView) -> _Domains:
        """Count the pods of constraints that are counted together; `values` are the eligible ones."""
        numbers, column = everywhere.label(self.constraints.each[group[0]].topology_key)
        size = column.values.size
        # Of several constraints with the same key, the last one's count stands where it includes a node.
        queries = self.constraints.queries
        last, *others = group[::-1]
        eligible = self._included[last]
        pods = pods_by_value(self._cluster, queries[last], numbers, size, eligible)
        for index in others:
            more = self._included[index]
            pods = pods + pods_by_value(self._cluster, queries[index], numbers, size, more & ~eligible)
            eligible = more | eligible
        if not len(values):
            return _Domains(pods, 0, _MANY, ABSENT, _MANY)
        counts = pods[values]
        first = int(counts.argmin())
        least, counts[first] = int(counts[first]), _MANY
        return _Domains(pods, len(values), least, int(values[first]), int(counts.min()))

    def _added(self, constraint: SpreadConstraint, nodes: NodeView) -> Amounts:
        """Return how many more pods each node has in its own world; here terminating pods count, too."""
        added = np.zeros(len(nodes), np.int64)
        for index in self._group_of[constraint]:
            more = nodes.pods_added(self.constraints.queries[index].selectors)
            added += np.where(nodes.of_rows(self._included[index]), more, 0)
        return added


def _groups(constraints: Sequence[SpreadConstraint], *, apart: bool) -> list[list[int]]:
    """Return the numbers of constraints that are counted together: of the same key, or `apart`, each alone."""
    if apart:
        return [[index] for index in {each: index for index, each in enumerate(constraints)}.values()]
    by_key: dict[str, list[int]] = {}
    for index, each in enumerate(constraints):
        by_key.setdefault(each.topology_key, []).append(index)
    return list(by_key.values())


class _EligibleValues(msgspec.Struct):
    """By topology key, the numbers of the label values of which there are eligible nodes."""

    by_key: list[NDArray[np.intp]]


def _values(
    everywhere: NodeView,
    _columns: tuple[LabelColumn, ...],
    keys: tuple[str, ...],
    numbers: tuple[tuple[int, ...], ...],
    policies: tuple[Policies, ...],
) -> _EligibleValues:
    """Return the values on nodes that any of a key's policies includes; these are given by their numbers."""
    masks = [everywhere.remembered(included, each) for each in policies]
    by_key = []
    for key, of_key in zip(keys, numbers, strict=True):
        values, column = everywhere.label(key)
        occurs = np.zeros(column.values.size + 1, np.bool_)
        for number in set(of_key):
            occurs[values[masks[number]]] = True
        by_key.append(np.flatnonzero(occurs))
    return _EligibleValues(by_key)

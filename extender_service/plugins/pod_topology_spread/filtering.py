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
        self._rules = rules
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
        keys = self.constraints.topology_keys
        inclusion = Inclusion(everywhere, self._pod, keys, self._rules.matches)
        constraints = self.constraints.each
        self._included = [inclusion.of(constraint) for constraint in constraints]
        self._domains = {each: self._domains_of(each, everywhere, inclusion) for each in constraints}

    def _counted_with(self, constraint: SpreadConstraint) -> list[int]:
        """Return which constraints are counted together with one: those of the same key, or from 1.33 on, it alone."""
        constraints, key = self.constraints.each, constraint.topology_key
        if self._rules.counts_apart:
            return [constraints.index(constraint)]
        return [index for index, each in enumerate(constraints) if each.topology_key == key]

    def _domains_of(self, constraint: SpreadConstraint, everywhere: NodeView, inclusion: Inclusion) -> _Domains:
        key = constraint.topology_key
        numbers, column = everywhere.label(key)
        size = column.values.size
        # Of several constraints with the same key, the last one's count stands where it includes a node.
        constraints, queries = self.constraints.each, self.constraints.queries
        here = self._counted_with(constraint)[::-1]
        eligible = self._included[here[0]]
        pods = pods_by_value(self._cluster, queries[here[0]], numbers, size, eligible)
        for index in here[1:]:
            others = self._included[index]
            pods = pods + pods_by_value(self._cluster, queries[index], numbers, size, others & ~eligible)
            eligible = others | eligible
        policies = tuple([inclusion.policies(constraints[index]) for index in here])
        values = everywhere.remembered_at(column, _values, key, inclusion.keys, policies)
        if not len(values):
            return _Domains(pods, 0, _MANY, ABSENT, _MANY)
        counts = pods[values]
        first = int(counts.argmin())
        least, counts[first] = int(counts[first]), _MANY
        return _Domains(pods, len(values), least, int(values[first]), int(counts.min()))

    def _added(self, constraint: SpreadConstraint, nodes: NodeView) -> Amounts:
        """Return how many more pods each node has in its own world; here terminating pods count, too."""
        added = np.zeros(len(nodes), np.int64)
        for index in self._counted_with(constraint):
            more = nodes.pods_added(self.constraints.queries[index].selectors)
            added += np.where(nodes.of_rows(self._included[index]), more, 0)
        return added


def _values(
    everywhere: NodeView, column: LabelColumn, key: str, keys: tuple[str, ...], policies: Sequence[Policies]
) -> NDArray[np.intp]:
    """Return the numbers of the label values on nodes that any of the policies includes."""
    numbers, _ = everywhere.label(key)
    occurs = np.zeros(column.values.size + 1, np.bool_)
    for policy in policies:
        occurs[numbers[everywhere.remembered(included, keys, *policy)]] = True
    return np.flatnonzero(occurs)

"""How uneven a pod would make the spread over topologies, for each node (podtopologyspread/filtering.go)."""

from collections.abc import Sequence

import msgspec
import numpy as np

from extender_service.cluster.cluster import Cluster
from extender_service.cluster.label_sets import PodSelector
from extender_service.cluster.labels import ABSENT
from extender_service.cluster.nodes import NodeTable
from extender_service.cluster.view import NodeView
from extender_service.kube.objects import Pod
from extender_service.plugins.node_matching import Mask
from extender_service.plugins.spread_constraints import Inclusion, SpreadConstraint, pods_by_row
from extender_service.plugins.topology import Amounts, is_present, sum_by_value

# The count of a topology that does not exist (math.MaxInt32).
_MANY = 2**31 - 1


class _Domains(msgspec.Struct):
    """The topologies of one key: `pods` by the number of the label's value, and an entry for nodes without it.

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

    def __init__(self, cluster: Cluster, pod: Pod, constraints: Sequence[SpreadConstraint]) -> None:
        self.constraints = constraints
        self._cluster = cluster
        self._pod = pod
        self._selectors = [
            PodSelector(frozenset((pod.metadata.namespace,)), constraint.selector) for constraint in constraints
        ]
        self._table: NodeTable | None = None
        self._included: list[Mask] = []
        self._domains: dict[str, _Domains] = {}

    def check(self, constraint: SpreadConstraint, nodes: NodeView) -> tuple[Mask, Mask]:
        """Tell for each node whether it has the topology's label, and whether the constraint would hold there."""
        self._count(nodes)
        numbers, _ = nodes.label(constraint.topology_key)
        domains = self._domains[constraint.topology_key]
        if not domains.count:
            return is_present(numbers), np.ones(len(nodes), np.bool_)
        pods = domains.pods[numbers]
        least: Amounts | int = domains.least
        if nodes.is_changed:
            added = self._added(constraint.topology_key, nodes)
            pods = pods + added
            elsewhere = np.where(numbers == domains.fewest, domains.second, domains.least)
            least = np.where(added != 0, np.minimum(pods, elsewhere), domains.least)
        if domains.count < constraint.min_domains:
            least = 0
        itself = int(constraint.selector.matches(self._pod.metadata.labels))
        return is_present(numbers), pods - least <= constraint.max_skew - itself

    def _count(self, nodes: NodeView) -> None:
        if self._table is nodes.table:
            return
        self._table = nodes.table
        everywhere = nodes.everywhere()
        inclusion = Inclusion(everywhere, self._pod)
        with_keys = inclusion.has_keys(self.constraints)
        self._included = [inclusion.of(constraint, with_keys) for constraint in self.constraints]
        self._domains = {
            key: self._domains_of(key, everywhere) for key in {item.topology_key for item in self.constraints}
        }

    def _domains_of(self, key: str, everywhere: NodeView) -> _Domains:
        numbers, column = everywhere.label(key)
        on_node = np.zeros(len(everywhere), np.int64)
        eligible = np.zeros(len(everywhere), np.bool_)
        # Of several constraints with the same key, the last one's count stands.
        for constraint, selector, included in zip(self.constraints, self._selectors, self._included, strict=True):
            if constraint.topology_key == key:
                on_node = np.where(included, pods_by_row(self._cluster, selector, len(everywhere)), on_node)
                eligible |= included
        pods = sum_by_value(numbers, on_node, column.values.size)
        is_domain = np.zeros(len(pods), np.bool_)
        is_domain[numbers[eligible]] = True
        values = np.flatnonzero(is_domain)
        if not len(values):
            return _Domains(pods, 0, _MANY, ABSENT, _MANY)
        counts = pods[values]
        first = int(counts.argmin())
        least, counts[first] = int(counts[first]), _MANY
        return _Domains(pods, len(values), least, int(values[first]), int(counts.min()))

    def _added(self, key: str, nodes: NodeView) -> Amounts:
        """How many pods more each node has in its own world; here terminating ones count, too."""
        added = np.zeros(len(nodes), np.int64)
        for constraint, selector, included in zip(self.constraints, self._selectors, self._included, strict=True):
            if constraint.topology_key == key:
                added += np.where(nodes.of_rows(included), nodes.pods_added((selector,)), 0)
        return added

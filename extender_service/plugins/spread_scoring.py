"""How many pods of a kind are near each node already, weighed by topology (podtopologyspread/scoring.go)."""

import math
from collections.abc import Sequence

import numpy as np

from extender_service.cluster.cluster import Cluster
from extender_service.cluster.label_sets import PodSelector
from extender_service.cluster.labels import ABSENT
from extender_service.cluster.view import NodeView
from extender_service.kube.objects import Pod
from extender_service.plugins.node_matching import Mask
from extender_service.plugins.spread_constraints import Inclusion, SpreadConstraint, has_keys, pods_by_row
from extender_service.plugins.topology import Amounts, Numbers, is_present, sum_by_value

_HOSTNAME = "kubernetes.io/hostname"


class SpreadPreference:
    """What the constraints of a pod that should hold say about feasible nodes: `scores`, the lower the better.

    `ignored` nodes lack a topology key, where all are needed, and score 0.
    """

    def __init__(
        self,
        cluster: Cluster,
        pod: Pod,
        constraints: Sequence[SpreadConstraint],
        nodes: NodeView,
        *,
        needs_all_keys: bool,
    ) -> None:
        self._cluster = cluster
        self._pod = pod
        self._constraints = constraints
        self._nodes = nodes
        self._everywhere = nodes.everywhere()
        self._needs_all_keys = needs_all_keys
        self.ignored: Mask = ~has_keys(nodes, constraints) if needs_all_keys else np.zeros(len(nodes), np.bool_)
        self.scores = self._scores()

    def _scores(self) -> Amounts:
        inclusion = Inclusion(self._everywhere, self._pod)
        counting = inclusion.has_keys(self._constraints if self._needs_all_keys else ())
        by_value: dict[str, Amounts] = {}
        sizes: list[int] = []
        for constraint in self._constraints:
            key = constraint.topology_key
            if key == _HOSTNAME:
                sizes.append(len(self._nodes) - int(np.count_nonzero(self.ignored)))
                continue
            # Constraints with the same key count together, under the first one's size.
            sizes.append(0 if key in by_value else self._topologies(key))
            pods = self._pods_by_value(constraint, inclusion.of(constraint, counting))
            by_value[key] = by_value[key] + pods if key in by_value else pods
        total = np.zeros(len(self._nodes))
        for constraint, size in zip(self._constraints, sizes, strict=True):
            key = constraint.topology_key
            numbers, _ = self._nodes.label(key)
            weight, allowance = math.log(size + 2), float(constraint.max_skew - 1)
            if key == _HOSTNAME:
                pods = self._nodes.of_rows(self._pods_by_row(constraint))
                total += np.where(is_present(numbers), pods * weight + allowance, 0.0)
            else:
                scores = by_value[key] * weight + allowance
                scores[ABSENT] = 0.0
                total += scores[numbers]
        whole = np.floor(total)
        rounded = (whole + (total - whole >= 0.5)).astype(np.int64)
        rounded[self.ignored] = 0
        return rounded

    def _topologies(self, key: str) -> int:
        """How many topologies the nodes are in; all nodes without the label, where not all are needed, make one."""
        numbers, size = self._numbers(self._nodes, key)
        seen = np.zeros(size + 1, np.bool_)
        seen[numbers[~self.ignored]] = True
        return int(np.count_nonzero(seen))

    def _pods_by_value(self, constraint: SpreadConstraint, included: Mask) -> Amounts:
        numbers, size = self._numbers(self._everywhere, constraint.topology_key)
        return sum_by_value(numbers, np.where(included, self._pods_by_row(constraint), 0), size)

    def _numbers(self, nodes: NodeView, key: str) -> tuple[Numbers, int]:
        """The numbers of the nodes' values, of which no label and an empty one are the same here; and how many."""
        numbers, column = nodes.label(key)
        empty = column.values.number_of("")
        return (numbers if empty < 0 else np.where(numbers == ABSENT, empty, numbers)), column.values.size

    def _pods_by_row(self, constraint: SpreadConstraint) -> Amounts:
        pods = PodSelector(frozenset((self._pod.metadata.namespace,)), constraint.selector)
        return pods_by_row(self._cluster, pods, len(self._everywhere))

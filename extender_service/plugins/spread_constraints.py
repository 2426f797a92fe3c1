"""Topology spread constraints, parsed, and the nodes that they look at (podtopologyspread/common.go)."""

from collections.abc import Collection, Iterable
from functools import cached_property

import msgspec
import numpy as np

from extender_service.cluster.cluster import Cluster
from extender_service.cluster.label_sets import PodSelector
from extender_service.cluster.pod_counts import PodQuery
from extender_service.cluster.view import NodeView
from extender_service.cluster.workloads import Workloads
from extender_service.kube.objects import Pod, TopologySpreadConstraint
from extender_service.kube.selectors import (
    EVERYTHING,
    Selector,
    label_set_selector,
    parse_label_selector,
    required_node_affinity,
)
from extender_service.plugins.default_selector import default_selector
from extender_service.plugins.node_matching import Mask, matches_affinity
from extender_service.plugins.tolerations import first_untolerated
from extender_service.plugins.topology import Amounts, is_present

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
_HONOR = "Honor"


class SpreadConstraint(msgspec.Struct, frozen=True):
    """One parsed constraint."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


def own_constraints(pod: Pod, action: str) -> list[SpreadConstraint]:
    """Parse the constraints that a pod has itself, those of one whenUnsatisfiable. Raises SelectorError."""
    return [
        _constraint(constraint, _selector(constraint, pod))
        for constraint in pod.spec.topology_spread_constraints
        if constraint.when_unsatisfiable == action
    ]


def default_constraints(
    defaults: Iterable[TopologySpreadConstraint], pod: Pod, action: str, workloads: Workloads
) -> list[SpreadConstraint]:
    """Make constraints for a pod that has none, of its Services and its controller; none without these."""
    wanted = [constraint for constraint in defaults if constraint.when_unsatisfiable == action]
    selector = default_selector(pod, workloads) if wanted else EVERYTHING
    return [] if selector == EVERYTHING else [_constraint(constraint, selector) for constraint in wanted]


def _constraint(constraint: TopologySpreadConstraint, selector: Selector) -> SpreadConstraint:
    return SpreadConstraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=constraint.node_affinity_policy in (None, _HONOR),
        honors_taints=constraint.node_taints_policy == _HONOR,
    )


def _selector(constraint: TopologySpreadConstraint, pod: Pod) -> Selector:
    selector = parse_label_selector(constraint.label_selector)
    labels = pod.metadata.labels
    same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    if not same or selector.nothing:
        return selector
    return Selector.of([*selector.requirements, *label_set_selector(same).requirements])


def pods_by_row(cluster: Cluster, pods: PodSelector, size: int) -> Amounts:
    """Count a constraint's pods on each row, but those that are being deleted; an empty selector counts none."""
    if pods.selector == EVERYTHING:
        return np.zeros(size, np.int64)
    return cluster.pod_counts.by_row(PodQuery((pods,), with_terminating=False), size)


class Inclusion:
    """Which nodes of a whole table constraints count pods on: nodes that a pod could go to, as their policies say."""

    def __init__(self, nodes: NodeView, pod: Pod) -> None:
        self._nodes = nodes
        self._pod = pod

    def has_keys(self, constraints: Collection[SpreadConstraint]) -> Mask:
        """Tell for each row whether there is a node with the topology keys of all constraints."""
        exists = self._nodes.exists
        return exists & has_keys(self._nodes, constraints) if constraints else exists

    def of(self, constraint: SpreadConstraint, rows: Mask) -> Mask:
        """Narrow rows down to those that one constraint's policies include."""
        if constraint.honors_affinity and (self._pod.spec.affinity or self._pod.spec.node_selector):
            rows = rows & self._matching_affinity
        if constraint.honors_taints:
            rows = rows & self._tolerated
        return rows

    @cached_property
    def _matching_affinity(self) -> Mask:
        return matches_affinity(self._nodes, required_node_affinity(self._pod.spec))

    @cached_property
    def _tolerated(self) -> Mask:
        tolerations = self._pod.spec.tolerations
        tolerated = [not first_untolerated(taints or (), tolerations) for taints in self._nodes.taint_sets]
        mask: Mask = np.array(tolerated, np.bool_)[self._nodes.taint_set]
        return mask


def has_keys(nodes: NodeView, constraints: Iterable[SpreadConstraint]) -> Mask:
    """Tell for each node whether it has the topology keys of all constraints."""
    has_all = np.ones(len(nodes), np.bool_)
    for key in {constraint.topology_key for constraint in constraints}:
        has_all &= is_present(nodes.label(key)[0])
    return has_all

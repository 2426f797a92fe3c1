"""Topology spread constraints, parsed, and the nodes that they look at (podtopologyspread/common.go)."""

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from extender_service.caches import cached
from extender_service.cluster.owners.owners import Workloads
from extender_service.cluster.pods.pod_counts import PodQuery
from extender_service.cluster.selection.label_sets import LabelSet, PodSelector
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.kube.parsing.selectors import (
    EVERYTHING,
    RequiredNodeAffinity,
    Selector,
    label_set_selector,
    parse_label_selector,
    required_node_affinity,
)
from extender_service.kube.types.core import OwnerReference, Pod, Toleration, TopologySpreadConstraint
from extender_service.plugins.pod_topology_spread.default_selector import default_selector
from extender_service.plugins.shared.node_matching import Mask, matches_affinity
from extender_service.plugins.shared.tolerations import Tolerates, first_untolerated
from extender_service.plugins.shared.topology import Amounts, Numbers, has_label

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
_HONOR = "Honor"

_own_decoder = msgspec.msgpack.Decoder(tuple[str, dict[str, str], tuple[TopologySpreadConstraint, ...]])


class SpreadRules(msgspec.Struct, frozen=True):
    """What differs between releases: whether each of several constraints with the same topology key counts on its own,
    and how tolerations are matched."""

    counts_apart: bool
    matches: Tolerates


class SpreadConstraint(msgspec.Struct, frozen=True):
    """One parsed constraint."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool


class Constraints(msgspec.Struct, frozen=True):
    """The constraints of pods that are alike, the pods that each of them counts, and their topology keys, each once.

    Pods that are being deleted do not count.
    """

    each: tuple[SpreadConstraint, ...]
    queries: tuple[PodQuery, ...]
    topology_keys: tuple[str, ...]

    @classmethod
    def of(cls, namespace: str, constraints: Iterable[SpreadConstraint]) -> "Constraints":
        """Return the constraints of pods in this namespace."""
        each = tuple(constraints)
        namespaces = frozenset((namespace,))
        queries = {
            item.selector: PodQuery((PodSelector(namespaces, item.selector),), with_terminating=False) for item in each
        }
        return cls(
            each,
            tuple([queries[item.selector] for item in each]),
            tuple(dict.fromkeys([item.topology_key for item in each])),
        )


NO_CONSTRAINTS = Constraints((), (), ())


def own_constraints(label_set: LabelSet, constraints: tuple[TopologySpreadConstraint, ...], action: str) -> Constraints:
    """Parse the constraints that pods have themselves, those of one whenUnsatisfiable. Raises SelectorError."""
    labels = label_set.labels
    same = {key: labels[key] for item in constraints for key in item.match_label_keys if key in labels}
    # Pods of one template share theirs, and bytes can be looked up where the objects cannot. Of a pod's labels only
    # those count that a constraint names: the others may be many.
    return _own(msgspec.msgpack.encode((label_set.namespace, same, constraints)), action)


@cached("spread constraints", most_entries=256, most_entry_bytes=24 << 10, most_size=2 << 10)
def _own(encoded: bytes, action: str) -> Constraints:
    namespace, labels, constraints = _own_decoder.decode(encoded)
    return Constraints.of(
        namespace,
        [
            _constraint(constraint, _selector(constraint, labels))
            for constraint in constraints
            if constraint.when_unsatisfiable == action
        ],
    )


def default_constraints(
    workloads: Workloads,
    defaults: Iterable[TopologySpreadConstraint],
    label_set: LabelSet,
    owners: Iterable[OwnerReference],
) -> Constraints:
    """Make constraints for pods that have none. They select the pods of the same Services and controller;
    without those there are no constraints."""
    selector = default_selector(workloads, label_set, owners)
    if selector == EVERYTHING:
        return NO_CONSTRAINTS
    return Constraints.of(label_set.namespace, [_constraint(constraint, selector) for constraint in defaults])


def _constraint(constraint: TopologySpreadConstraint, selector: Selector) -> SpreadConstraint:
    return SpreadConstraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector,
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honors_affinity=constraint.node_affinity_policy in (None, _HONOR),
        honors_taints=constraint.node_taints_policy == _HONOR,
    )


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    selector = parse_label_selector(constraint.label_selector)
    same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    if not same or selector.nothing:
        return selector
    return Selector.of([*selector.requirements, *label_set_selector(same).requirements])


def pods_by_row(cluster: Cluster, query: PodQuery, size: int) -> Amounts:
    """Count a constraint's pods on each row; an empty selector counts none."""
    if query.selectors[0].selector == EVERYTHING:
        return np.zeros(size, np.int64)
    return cluster.pod_counts.by_row(query, size)


def pods_by_value(cluster: Cluster, query: PodQuery, numbers: Numbers, size: int, included: Mask) -> Amounts:
    """Count the same pods, on included rows, for each of `size` values; 0 for nodes without one."""
    if query.selectors[0].selector == EVERYTHING or not np.count_nonzero(included):
        return np.zeros(size + 1, np.int64)
    return cluster.pod_counts.by_value(query, numbers, size, included)


class Policies(msgspec.Struct, frozen=True, gc=False, cache_hash=True, array_like=True):
    """Which nodes count: those that have labels of all `keys`, and that the affinity and the tolerations, each None if
    it is ignored, let the pod use; `matches` is how tolerations are matched.

    The hash is computed once: a pod may have thousands of keys, and as many constraints.
    """

    keys: tuple[str, ...]
    affinity: RequiredNodeAffinity | None
    tolerations: tuple[Toleration, ...] | None
    matches: Tolerates


class Inclusion:
    """The nodes of a whole table on which constraints count pods: those that their policies let the pod use.

    They must have labels with all of `keys`. What the policies include is found once for all constraints that share
    them.
    """

    def __init__(self, nodes: NodeView, pod: Pod, keys: tuple[str, ...], matches: Tolerates) -> None:
        self.policies: list[Policies] = []
        self.masks: list[Mask] = []
        self._numbers: dict[tuple[bool, bool], int] = {}
        self._matches = matches
        self._nodes = nodes
        self._pod = pod
        self._keys = keys

    def number_of(self, constraint: SpreadConstraint) -> int:
        """Return the number of the constraint's policies in `policies`; `masks` has for each row whether it holds a
        node that they include."""
        honored = constraint.honors_affinity, constraint.honors_taints
        number = self._numbers.get(honored)
        if number is None:
            number = self._numbers[honored] = len(self.policies)
            policies = self._policies_of(constraint)
            self.policies.append(policies)
            self.masks.append(self._nodes.remembered(included, policies))
        return number

    def _policies_of(self, constraint: SpreadConstraint) -> Policies:
        spec = self._pod.spec
        selects = spec.node_selector or (spec.affinity and spec.affinity.node_affinity)
        affinity = required_node_affinity(spec) if constraint.honors_affinity and selects else None
        return Policies(self._keys, affinity, spec.tolerations if constraint.honors_taints else None, self._matches)


def included(nodes: NodeView, policies: Policies) -> Mask:
    """Return for each row whether it holds a node that these policies include."""
    mask = nodes.exists & have_labels(nodes, policies.keys)
    if policies.affinity is not None:
        mask &= matches_affinity(nodes, policies.affinity)
    if policies.tolerations is not None:
        tolerated = [
            not first_untolerated(taints or (), policies.tolerations, policies.matches) for taints in nodes.taint_sets
        ]
        mask &= np.array(tolerated, np.bool_)[nodes.taint_set]
    return mask


def have_labels(nodes: NodeView, keys: Iterable[str]) -> Mask:
    """Return for each node whether it has labels with all of these keys."""
    have_all = np.ones(len(nodes), np.bool_)
    for key in keys:
        have_all &= has_label(nodes, key)
        if not np.count_nonzero(have_all):  # as of thousands of keys that no node has
            break
    return have_all

"""InterPodAffinity: pods go near to some pods and stay apart from others."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.selection.label_sets import LabelSet
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cluster_event import NODE, POD, TARGET_POD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, PreScore, Reach, Score
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Rejections, Status, unresolvable, unschedulable
from extender_service.kube.parsing.pod_affinity import NO_TERMS, PodAffinityTerms, pod_affinity_terms
from extender_service.kube.types.core import Object, Pod
from extender_service.kube.types.workloads import Namespace
from extender_service.plugins.inter_pod_affinity.args import InterPodAffinityArgs
from extender_service.plugins.inter_pod_affinity.filtering import AffinityRequirement, Occupied, OccupiedTopologies
from extender_service.plugins.inter_pod_affinity.hints import (
    affinity_changed_by_node,
    affinity_helped_by_node,
    affinity_helped_by_pod,
)
from extender_service.plugins.inter_pod_affinity.scoring import AffinityPreference, points_of
from extender_service.plugins.shared.changed_pods import is_of_pod, is_own, pods_on_nodes
from extender_service.plugins.shared.node_matching import Mask
from extender_service.plugins.shared.topology import are_many

NOT_NEAR = unresolvable("node(s) didn't match pod affinity rules")
NOT_APART = unschedulable("node(s) didn't match pod anti-affinity rules")
UNWANTED = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

_REQUIRED = "PreFilterInterPodAffinity"
_PREFERRED = "PreScoreInterPodAffinity"
_SCORED = "ScoreInterPodAffinity"


class InterPodAffinity(PreFilter, Filter, PreScore, Score):
    """Rejects nodes by the required affinity and anti-affinity of the pod, and by the anti-affinity of running pods;
    scores by the weights of what the pod and running pods prefer."""

    name: ClassVar[str] = "InterPodAffinity"
    treats_alike: ClassVar[bool] = True
    args_type: ClassVar[type | None] = InterPodAffinityArgs
    reads: ClassVar[frozenset[type[Object]]] = frozenset({Namespace})
    retry_on = (
        ClusterEvent(POD, ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE),
        ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT),
    )

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        rules = handle.rules
        if rules.hints_compare:
            pods = ActionType.ADD | ActionType.UPDATE_POD_LABEL | ActionType.DELETE
            own = (ClusterEvent(TARGET_POD, ActionType.UPDATE_POD_LABEL),) if rules.own_changes_named else ()
            nodes = ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
            self.retry_on = (ClusterEvent(pods_on_nodes(rules), pods), *own, nodes)

    def reach_for(self, state: CycleState, pod: Pod) -> Reach:
        """Return that pods without terms of their own change nothing for each other."""
        terms = pod_affinity_terms(pod.metadata.namespace, pod.spec.affinity)
        return Reach.NONE if terms == NO_TERMS else Reach.CLUSTER

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Parse the pod's required terms, and find the running pods whose anti-affinity matches it."""
        terms = pod_affinity_terms(pod.metadata.namespace, pod.spec.affinity)
        if terms.errors:
            return unresolvable(f"parsing pod: {terms.error_text(self.handle.rules.wording)}")
        cluster, label_set = self.handle.cluster, state.label_set
        namespace_labels = cluster.workloads.namespace_labels(label_set.namespace)
        unwanted_by = cluster.pods.anti_affinity.about(label_set, namespace_labels)
        if not terms.required and not terms.required_anti and not unwanted_by:
            return SKIP
        required = AffinityRequirement(cluster, label_set, terms, unwanted_by)
        if required.is_empty:
            return SKIP
        state[_REQUIRED] = required
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes that are not near the pods of an affinity term, or are near pods of an anti-affinity term."""
        required: AffinityRequirement = state.read(_REQUIRED, "error reading")
        occupied = required.occupied(nodes) if are_many(nodes) else None
        if occupied is not None:
            return nodes.remembered_at(tuple(occupied), _rejections)
        return _first_of(required.not_near(nodes), required.not_apart(nodes), required.unwanted(nodes), nodes)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Add up what the pod and running pods prefer; skip scoring if that concerns no node."""
        terms = pod_affinity_terms(pod.metadata.namespace, pod.spec.affinity)
        if self.args.ignore_preferred_terms_of_existing_pods and not _has_preferences(pod):
            return SKIP
        if terms.errors:
            raise PluginError(f"failed to parse pod: {terms.error_text(self.handle.rules.wording)}")
        preferred = self._preference(state.label_set, terms, nodes.everywhere())
        if preferred.is_empty:
            return SKIP
        state[_PREFERRED] = preferred
        return None

    def _preference(self, label_set: LabelSet, terms: PodAffinityTerms, everywhere: NodeView) -> AffinityPreference:
        cluster, weight = self.handle.cluster, self.args.hard_pod_affinity_weight
        if terms.preferred or terms.preferred_anti:
            return AffinityPreference(cluster, label_set, terms, everywhere, weight)
        # What running pods prefer is the same for all pods with these labels, until such a pod is added or removed.
        version = (cluster.pods.affinity.change_count, cluster.workloads.change_count)
        return everywhere.remembered_at(version, self._preference_of_running_pods, label_set)

    def _preference_of_running_pods(
        self, everywhere: NodeView, version: tuple[int, int], label_set: LabelSet
    ) -> AffinityPreference:
        weight = self.args.hard_pod_affinity_weight
        return AffinityPreference(self.handle.cluster, label_set, NO_TERMS, everywhere, weight)

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Add up the weights for each node; the sum may be negative."""
        preferred: AffinityPreference = state.read(_PREFERRED, "failed to read")
        scores = state[_SCORED] = nodes.remembered_at(preferred, _scores)
        return scores

    def normalize(self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Scale the sums linearly: the lowest becomes 0, the highest 100 points."""
        if are_many(nodes) and _SCORED in state and state[_SCORED] is scores:
            return nodes.remembered_at(state[_PREFERRED], _points_by_topology)
        return nodes.remembered_at(scores, _points)

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for a pod or node that comes to meet the required terms, or ceases to violate them."""
        rules = self.handle.rules
        if rules.anti_affinity_of_others_wakes and is_own(event, pod, old, new):
            return QueueingHint.QUEUE
        if is_of_pod(event):
            return QueueingHint.queue_if(affinity_helped_by_pod(pod, old, new, rules))
        helps = affinity_changed_by_node if rules.topologies_compared else affinity_helped_by_node
        return QueueingHint.queue_if(helps(pod, old, new, rules.wording))


def _has_preferences(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    return any(rules is not None and rules.preferred for rules in (affinity.pod_affinity, affinity.pod_anti_affinity))


def _rejections(nodes: NodeView, by_check: tuple[tuple[Occupied, ...], ...]) -> Rejections | None:
    occupied = OccupiedTopologies(*by_check)
    return _first_of(occupied.not_near(nodes), occupied.not_apart(nodes), occupied.not_wanted(nodes), nodes)


def _first_of(
    not_near: Mask | None, not_apart: Mask | None, unwanted: Mask | None, nodes: NodeView
) -> Rejections | None:
    checks = ((NOT_NEAR, not_near), (NOT_APART, not_apart), (UNWANTED, unwanted))
    found = [(status, rejected) for status, rejected in checks if rejected is not None]
    return Rejections.first_of(found, len(nodes)) if found else None


def _scores(nodes: NodeView, preferred: AffinityPreference) -> NDArray[np.int64]:
    return preferred.scores(nodes)


def _points(_nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
    return points_of(scores)


def _points_by_topology(nodes: NodeView, preferred: AffinityPreference) -> NDArray[np.int64]:
    return preferred.points(nodes, nodes.remembered_at(preferred, _scores))

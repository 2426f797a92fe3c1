"""TaintToleration: a pod goes only where it tolerates the taints; the fewer it merely endures, the better."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import NODE, POD, TARGET_POD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, PreScore, Reach, Score, extension_points
from extender_service.framework.status import Rejections, Status, unresolvable
from extender_service.kube.types.core import Node, Pod, Taint, Toleration
from extender_service.plugins.shared.changed_nodes import node_changes
from extender_service.plugins.shared.changed_pods import own_pod
from extender_service.plugins.shared.event_objects import old_and_new, only_new, only_old
from extender_service.plugins.shared.normalization import scale_to_max
from extender_service.plugins.shared.tolerations import (
    PREFER_NO_SCHEDULE,
    Tolerates,
    first_untolerated,
    is_tolerated,
    tolerates_in,
)

UNTOLERATED = unresolvable("node(s) had untolerated taint(s)")

_TOLERATIONS = "PreScoreTaintToleration"


class TaintToleration(PreFilter, Filter, PreScore, Score):
    """Rejects nodes with a NoSchedule or NoExecute taint that the pod does not tolerate, and scores by the number of
    PreferNoSchedule taints that it does not."""

    name: ClassVar[str] = "TaintToleration"
    treats_alike: ClassVar[bool] = True
    depends_on_pods: ClassVar[bool] = False
    reach: ClassVar[Reach] = Reach.NONE
    retry_on: Sequence[ClusterEvent] = (ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE),)

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._compares = handle.rules.hints_compare  # the event then is that the pod has more tolerations
        if handle.rules.fewer_events_wake:
            self.retry_on = (node_changes(handle.rules, ActionType.UPDATE_NODE_TAINT),)
        if handle.rules.hints_compare:
            self.retry_on = (*self.retry_on, ClusterEvent(own_pod(handle.rules), ActionType.UPDATE_POD_TOLERATION))
        elif handle.rules.queueing_hints:
            self.retry_on = (*self.retry_on, ClusterEvent(POD, ActionType.UPDATE))
        self._matches = tolerates_in(handle.rules)
        self._rejections = _unnamed_rejections if handle.rules.unnamed_taints else _named_rejections

    @classmethod
    def points_in(cls, rules: Rules) -> set[str]:
        """Return the extension points: PreFilter, too, in releases that have it."""
        points = extension_points(cls)
        has_own = cls.pre_filter is not TaintToleration.pre_filter  # of a class derived from it
        return points if has_own or rules.taints_pre_filtered else points - {"preFilter"}

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Go on to Filter. kube-scheduler skips it for a pod whose resize is deferred, which is not judged here."""
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes with a taint that is not tolerated."""
        return nodes.remembered(self._rejections, pod.spec.tolerations, self._matches)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        """Store the pod's tolerations that may cover PreferNoSchedule taints in the state."""
        state[_TOLERATIONS] = tuple(
            [toleration for toleration in pod.spec.tolerations if toleration.effect in ("", PREFER_NO_SCHEDULE)]
        )
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Count, for each node, the PreferNoSchedule taints that the pod does not tolerate."""
        tolerations = state.read(_TOLERATIONS, "failed to read")
        return nodes.kept_by_facts(_endured, tolerations, self._matches)

    def normalize(self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give the node with the fewest such taints the most points."""
        return nodes.remembered_at(scores, _points, pod.spec.tolerations)

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for a node that the pod tolerates and did not before, and for another toleration of the pod."""
        if event.resource == TARGET_POD:
            return QueueingHint.QUEUE
        if event.resource != POD:
            return QueueingHint.queue_if(self._is_tolerated_now(pod, old, new))
        helps = only_new(Pod, old, new).metadata.uid == pod.metadata.uid
        return QueueingHint.queue_if(helps and (self._compares or _other_tolerations(old, new)))

    def _is_tolerated_now(self, pod: Pod, old: object, new: object) -> bool:
        before, after = old_and_new(Node, old, new)[0], only_new(Node, old, new)
        if before is not None and first_untolerated(before.spec.taints, pod.spec.tolerations, self._matches) is None:
            return False
        return first_untolerated(after.spec.taints, pod.spec.tolerations, self._matches) is None


def _other_tolerations(old: object, new: object) -> bool:
    before, after = only_old(Pod, old, new), only_new(Pod, old, new)
    # The API server lets tolerations be added, and nothing else.
    return len(after.spec.tolerations) != len(before.spec.tolerations)


def _unnamed_rejections(nodes: NodeView, tolerations: tuple[Toleration, ...], matches: Tolerates) -> Rejections | None:
    keys = nodes.kept_by_facts(_untolerated, tolerations, matches)
    return Rejections.where(keys != 0, UNTOLERATED) if keys.any() else None


def _named_rejections(nodes: NodeView, tolerations: tuple[Toleration, ...], matches: Tolerates) -> Rejections | None:
    """Return rejections that name the first taint that is not tolerated."""
    keys = nodes.kept_by_facts(_untolerated, tolerations, matches)
    if not keys.any():
        return None
    sets = tuple(nodes.taint_sets)  # as they are now: a number may stand for another set when the status is made
    return Rejections(keys, lambda key: _rejection(first_untolerated(sets[key - 1] or (), tolerations, matches)))


# The unused tolerations are part of the key under which the result is kept, so that pods do not share their scores.
def _points(_nodes: NodeView, scores: NDArray[np.int64], _tolerations: Sequence[Toleration]) -> NDArray[np.int64]:
    return scale_to_max(scores, reverse=True)


# Nodes share few distinct taint sets: one verdict per set, then one look-up per node.


def _untolerated(nodes: NodeView, tolerations: Sequence[Toleration], matches: Tolerates) -> NDArray[np.int64]:
    """Return one more than the number of the node's taint set if the pod does not tolerate it; else 0."""
    keys = [
        0 if first_untolerated(taints or (), tolerations, matches) is None else number + 1
        for number, taints in enumerate(nodes.taint_sets)
    ]
    rejected: NDArray[np.int64] = np.array(keys, np.int64).take(nodes.taint_set)
    return rejected


def _endured(nodes: NodeView, tolerations: Sequence[Toleration], matches: Tolerates) -> NDArray[np.int64]:
    per_set = [
        sum(
            taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, tolerations, matches)
            for taint in taints or ()
        )
        for taints in nodes.taint_sets
    ]
    scores: NDArray[np.int64] = np.array(per_set, np.int64).take(nodes.taint_set)
    return scores


def _rejection(taint: Taint | None) -> Status:
    assert taint is not None
    return unresolvable(f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}")

"""NodeUnschedulable: nodes that are cordoned take no new pods."""

from collections.abc import Sequence
from typing import ClassVar

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, Reach, extension_points
from extender_service.framework.status import Rejections, Status, unresolvable
from extender_service.kube.types.core import Node, Pod, Taint
from extender_service.plugins.shared.changed_nodes import node_changes
from extender_service.plugins.shared.changed_pods import is_of_pod, is_own, own_pod
from extender_service.plugins.shared.event_objects import old_and_new, only_new
from extender_service.plugins.shared.tolerations import NO_SCHEDULE, is_tolerated, tolerates

UNSCHEDULABLE = unresolvable("node(s) were unschedulable")
# It has no value, so tolerations that compare numbers never cover it.
_CORDON = Taint("node.kubernetes.io/unschedulable", "", NO_SCHEDULE)


class NodeUnschedulable(PreFilter, Filter):
    """Rejects cordoned nodes, unless the pod tolerates the taint that stands for it."""

    name: ClassVar[str] = "NodeUnschedulable"
    treats_alike: ClassVar[bool] = True
    depends_on_pods: ClassVar[bool] = False
    reach: ClassVar[Reach] = Reach.NONE
    retry_on: Sequence[ClusterEvent] = (ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE),)

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._compares = handle.rules.hints_compare
        if handle.rules.fewer_events_wake:
            self.retry_on = (node_changes(handle.rules, ActionType.UPDATE_NODE_TAINT),)
        if self._compares:
            self.retry_on = (*self.retry_on, ClusterEvent(own_pod(handle.rules), ActionType.UPDATE_POD_TOLERATION))

    @classmethod
    def points_in(cls, rules: Rules) -> set[str]:
        """Return the extension points: PreFilter, too, in releases that have it."""
        points = extension_points(cls)
        has_own = cls.pre_filter is not NodeUnschedulable.pre_filter  # of a class derived from it
        return points if has_own or rules.taints_pre_filtered else points - {"preFilter"}

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Go on to Filter. kube-scheduler skips it for a pod whose resize is deferred, which is not judged here."""
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject cordoned nodes."""
        rejections = nodes.remembered(_rejections)
        return None if rejections is None or is_tolerated(_CORDON, pod.spec.tolerations, tolerates) else rejections

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for a node that is not cordoned.

        In later releases, it must have been cordoned before, and the pod may come to tolerate that.
        """
        if is_of_pod(event):
            tolerations = only_new(Pod, old, new).spec.tolerations
            return QueueingHint.queue_if(is_own(event, pod, old, new) and is_tolerated(_CORDON, tolerations, tolerates))
        before, after = old_and_new(Node, old, new)[0], only_new(Node, old, new)
        was_cordoned = before is None or before.spec.unschedulable or not self._compares
        return QueueingHint.queue_if(was_cordoned and not after.spec.unschedulable)


def _rejections(nodes: NodeView) -> Rejections | None:
    cordoned = nodes.unschedulable
    return Rejections.where(cordoned, UNSCHEDULABLE) if cordoned.any() else None

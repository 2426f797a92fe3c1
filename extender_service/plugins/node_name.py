"""NodeName: a pod that names its node goes nowhere else."""

from collections.abc import Collection, Sequence
from typing import ClassVar

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, Reach
from extender_service.framework.status import Rejections, unresolvable
from extender_service.kube.types.core import Pod
from extender_service.plugins.shared.changed_nodes import node_changes

OTHER_NODE = unresolvable("node(s) didn't match the requested node name")


class NodeName(PreFilter, Filter):
    """Rejects every node except the one in spec.nodeName, if that is set."""

    name: ClassVar[str] = "NodeName"
    treats_alike: ClassVar[bool] = True
    depends_on_pods: ClassVar[bool] = False
    reach: ClassVar[Reach] = Reach.NONE
    retry_on: Sequence[ClusterEvent] = (ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE),)

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        if handle.rules.fewer_events_wake:
            self.retry_on = (node_changes(handle.rules),)

    @classmethod
    def points_in(cls, rules: Rules) -> set[str]:
        """Return the extension points: PreFilter, too, in releases that have it."""
        return {"preFilter", "filter"} if rules.node_named_first else {"filter"}

    def pre_filter(self, state: CycleState, pod: Pod) -> Collection[str] | None:
        """Name the only node."""
        return {pod.spec.node_name} if pod.spec.node_name else None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject the other nodes."""
        if not pod.spec.node_name:
            return None
        return Rejections.where(~nodes.is_named([pod.spec.node_name]), OTHER_NODE)

"""NodeName: a pod that names its node goes nowhere else."""

from typing import ClassVar

from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Filter
from extender_service.framework.status import Rejections, unresolvable
from extender_service.kube.types.core import Pod

OTHER_NODE = unresolvable("node(s) didn't match the requested node name")


class NodeName(Filter):
    """Rejects every node except the one in spec.nodeName, if that is set."""

    name: ClassVar[str] = "NodeName"
    treats_alike: ClassVar[bool] = True
    retry_on = (ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE),)

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject the other nodes."""
        if not pod.spec.node_name:
            return None
        return Rejections.where(~nodes.is_named([pod.spec.node_name]), OTHER_NODE)

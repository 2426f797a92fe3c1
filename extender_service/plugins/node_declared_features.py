"""NodeDeclaredFeatures: a pod goes only where the kubelet has the features that it needs.

The fields of a pod that need a feature are not judged yet. For all other pods, this plugin is in each decision what
kube-scheduler's is.
"""

from typing import ClassVar

from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import Rules
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Filter, PreFilter
from extender_service.framework.status import SKIP, Rejections, Status
from extender_service.kube.types.core import Pod


class NodeDeclaredFeatures(PreFilter, Filter):
    """Has nothing to say about pods that need no feature."""

    name: ClassVar[str] = "NodeDeclaredFeatures"
    treats_alike: ClassVar[bool] = True

    @classmethod
    def points_in(cls, rules: Rules) -> set[str]:
        """Return the extension points in a release: none before the plugin came."""
        return {"preFilter", "filter"} if rules.declared_features else set()

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Skip Filter."""
        return SKIP

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject no node."""
        return None

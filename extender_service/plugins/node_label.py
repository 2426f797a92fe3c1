"""NodeLabel: nodes by which labels they have, whatever the values; out of the default profile.

The plugin of kube-scheduler up to v1.22 (plugins/nodelabel/node_label.go there), and before that the policies
CheckNodeLabelPresence and CalculateNodeLabelPriority.
"""

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.state.cluster_events import ClusterEvent
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.plugin_args import NodeLabelArgs
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import MAX_NODE_SCORE, Filter, Score
from extender_service.framework.status import Rejections, unresolvable
from extender_service.kube.types.core import Pod

OTHER_LABELS = unresolvable("node(s) didn't have the requested labels")


class NodeLabel(Filter, Score):
    """Rejects nodes that lack a label of `presentLabels` or have one of `absentLabels`; scores by the share of the
    preferences that hold."""

    name: ClassVar[str] = "NodeLabel"
    treats_alike: ClassVar[bool] = True
    args_type: ClassVar[type | None] = NodeLabelArgs
    args: NodeLabelArgs
    retry_on: ClassVar[ClusterEvent] = ClusterEvent.NODE

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes whose labels are not as required."""
        rejected = np.zeros(len(nodes), np.bool_)
        for holds in _holds(nodes, self.args.present_labels, self.args.absent_labels):
            rejected |= ~holds
        return Rejections.where(rejected, OTHER_LABELS) if rejected.any() else None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Give the share of the preferences that hold; a label that is listed twice counts twice."""
        present, absent = self.args.present_labels_preference, self.args.absent_labels_preference
        scores = np.zeros(len(nodes), np.int64)
        for holds in _holds(nodes, present, absent):
            scores += MAX_NODE_SCORE * holds
        mean: NDArray[np.int64] = scores // max(len(present) + len(absent), 1)
        return mean


def _holds(nodes: NodeView, present: tuple[str, ...], absent: tuple[str, ...]) -> Iterator[NDArray[np.bool_]]:
    """Tell for each node, label by label, whether it is there, or is not, as wanted."""
    for key in present:
        yield nodes.label(key)[0] != ABSENT
    for key in absent:
        yield nodes.label(key)[0] == ABSENT

"""NodeLabel: filters and scores nodes by the keys of their labels; not in the default profile.

The plugin of kube-scheduler up to v1.22 (plugins/nodelabel/node_label.go there), and before that the policies
CheckNodeLabelPresence and CalculateNodeLabelPriority.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.args import PluginArgs
from extender_service.config.model import Many, OmitEmpty
from extender_service.config.problems import Problem, invalid
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import MAX_NODE_SCORE, Filter, Reach, Score
from extender_service.framework.status import Rejections, unresolvable
from extender_service.kube.types.core import Pod

OTHER_LABELS = unresolvable("node(s) didn't have the requested labels")


class NodeLabelArgs(PluginArgs):
    """Keys of labels that a node must have or must not have, and of those that make it better (v1beta1's type)."""

    kind: Literal["NodeLabelArgs"] = "NodeLabelArgs"
    present_labels: Annotated[Many[str], OmitEmpty] = ()
    absent_labels: Annotated[Many[str], OmitEmpty] = ()
    present_labels_preference: Annotated[Many[str], OmitEmpty] = ()
    absent_labels_preference: Annotated[Many[str], OmitEmpty] = ()

    def check(self, path: str, rules: Rules) -> Iterator[Problem]:
        """Check that no label is wanted and unwanted (ValidateNodeLabelArgs of v1.22)."""
        yield from _conflicts(self.present_labels, self.absent_labels, f"{path}.presentLabels", f"{path}.absentLabels")
        yield from _conflicts(
            self.present_labels_preference,
            self.absent_labels_preference,
            f"{path}.presentLabelsPreference",
            f"{path}.absentLabelsPreference",
        )


def _conflicts(present: Sequence[str], absent: Sequence[str], present_path: str, absent_path: str) -> Iterator[Problem]:
    last_of = {label: index for index, label in enumerate(present)}
    for index, label in enumerate(absent):
        if label in last_of:
            yield invalid(f"{present_path}[{last_of[label]}]", label, f"conflict with {absent_path}[{index}]")


class NodeLabel(Filter, Score):
    """Rejects nodes that lack a label of `presentLabels` or have one of `absentLabels`; scores by the share of the
    preferences that hold."""

    name: ClassVar[str] = "NodeLabel"
    treats_alike: ClassVar[bool] = True
    depends_on_pods: ClassVar[bool] = False
    reach: ClassVar[Reach] = Reach.NONE
    args_type: ClassVar[type | None] = NodeLabelArgs
    args: NodeLabelArgs
    retry_on = (ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),)

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes whose labels are not as required."""
        lacking = nodes.kept_by_facts(_lacking, self.args.present_labels, self.args.absent_labels)
        return Rejections.where(lacking, OTHER_LABELS) if lacking.any() else None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Give the share of the preferences that hold; a label that is listed twice counts twice."""
        present, absent = self.args.present_labels_preference, self.args.absent_labels_preference
        return nodes.kept_by_facts(_share_that_holds, present, absent)


def _lacking(nodes: NodeView, present: tuple[str, ...], absent: tuple[str, ...]) -> NDArray[np.bool_]:
    """Tell for each node whether a label is not as required."""
    lacking = np.zeros(len(nodes), np.bool_)
    for holds in _holds(nodes, present, absent):
        lacking |= ~holds
    return lacking


def _share_that_holds(nodes: NodeView, present: tuple[str, ...], absent: tuple[str, ...]) -> NDArray[np.int64]:
    scores = np.zeros(len(nodes), np.int64)
    for holds in _holds(nodes, present, absent):
        scores += MAX_NODE_SCORE * holds
    mean: NDArray[np.int64] = scores // max(len(present) + len(absent), 1)
    return mean


def _holds(nodes: NodeView, present: tuple[str, ...], absent: tuple[str, ...]) -> Iterator[NDArray[np.bool_]]:
    """Yield a mask of the nodes for each label: has it (`present`), or does not have it (`absent`)."""
    for key in present:
        yield nodes.label(key)[0] != ABSENT
    for key in absent:
        yield nodes.label(key)[0] == ABSENT

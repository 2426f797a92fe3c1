"""Base classes for plugins that look at one node at a time: simpler, and slower by a Python call for each node."""

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.node_info import NodeInfo
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.answer_checks import wrong_status
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Filter, Score
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import Rejections, Status
from extender_service.kube.types.core import Pod


class FilterNode(Filter):
    """A Filter that looks at one node at a time."""

    @abstractmethod
    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Return why the pod may not go to this node, or None."""

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Call `filter_node` for every node, and keep each distinct status once."""
        numbers: dict[Status, int] = {}
        keys = np.zeros(len(nodes), np.int64)
        for position, node in _nodes(state, nodes):
            status = self.filter_node(state, pod, node)
            if status is not None:
                wrong = wrong_status(status)
                if wrong is not None:
                    raise PluginError(f"filter_node returned {wrong}")
                keys[position] = numbers.setdefault(status, len(numbers) + 1)
        statuses = list(numbers)
        return Rejections(keys, lambda key: statuses[key - 1], may_be_errors=True) if statuses else None


class ScoreNode(Score):
    """A Score that looks at one node at a time."""

    @abstractmethod
    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return this node's score."""

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Call `score_node` for every node."""
        scores = np.zeros(len(nodes), np.int64)
        for position, node in _nodes(state, nodes):
            scores[position] = self.score_node(state, pod, node)
        return scores


def _nodes(state: CycleState, nodes: NodeView) -> Iterator[tuple[int, NodeInfo]]:
    for position, node in enumerate(nodes.objects):
        if node is not None:
            state.require_time()
            yield position, NodeInfo(nodes, position, node)

"""Base classes for plugins that look at one node at a time: simpler, and slower by a Python call for each node."""

import logging
from abc import abstractmethod
from collections.abc import Iterator
from itertools import islice
from traceback import walk_tb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.node_info import NodeInfo
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.answer_checks import wrong_score, wrong_status
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import OutOfTimeError
from extender_service.framework.interface import Filter, Score
from extender_service.framework.plugin_errors import RAISED, NoTimeLeftError, PluginError, is_fault, text_of
from extender_service.framework.status import Code, Rejections, Status
from extender_service.kube.types.core import Pod

log = logging.getLogger(__name__)

# How many kinds of failures of a plugin are logged, and how many frames of a traceback tell their places apart.
_MOST_LOGGED = 100
_FRAMES = 20


class FilterNode(Filter):
    """A Filter that looks at one node at a time."""

    # Each is logged once: it is raised about thousands of nodes, for pod after pod.
    _failures_logged: frozenset["_Failure"] = frozenset()

    @abstractmethod
    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Return why the pod may not go to this node, or None.

        An exception is an error of this node. It ends the cycle unless the node is not in question: `filter` gets such
        nodes as well, among them those that other plugins have rejected.
        """

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Call `filter_node` for every node, and keep each distinct status once."""
        numbers: dict[Status, int] = {}
        keys = np.zeros(len(nodes), np.int64)
        for position, node in _nodes(state, nodes):
            status = self._verdict_on(node, state, pod)
            if status is not None:
                keys[position] = numbers.setdefault(status, len(numbers) + 1)
        statuses = list(numbers)
        return Rejections(keys, lambda key: statuses[key - 1], may_be_errors=True) if statuses else None

    def _verdict_on(self, node: NodeInfo, state: CycleState, pod: Pod) -> Status | None:
        """Return what `filter_node` does, or its failure as an error. Raises NoTimeLeftError, OutOfTimeError."""
        try:
            status = self.filter_node(state, pod, node)
        except (NoTimeLeftError, OutOfTimeError):
            raise
        except RAISED as error:
            self._log_once(error, node)
            return Status(Code.ERROR, (text_of(error),))
        wrong = None if status is None else wrong_status(status)
        return status if wrong is None else Status(Code.ERROR, (f"filter_node returned {wrong}",))

    def _log_once(self, error: BaseException, node: NodeInfo) -> None:
        if not is_fault(error) or len(self._failures_logged) >= _MOST_LOGGED:
            return
        failure = _failure(error)
        if failure not in self._failures_logged:
            self._failures_logged |= {failure}
            log.error(
                "a plugin failed on a node; later failures of this kind at the same place are not logged",
                exc_info=error,
                extra={"plugin": self.name, "node": node.name, "kind": failure.kind},
            )


class ScoreNode(Score):
    """A Score that looks at one node at a time."""

    @abstractmethod
    def score_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return this node's score: MIN_NODE_SCORE to MAX_NODE_SCORE, unless `normalize` brings it there."""

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        """Call `score_node` for every node."""
        scores = np.zeros(len(nodes), np.int64)
        for position, node in _nodes(state, nodes):
            score = self.score_node(state, pod, node)
            if (wrong := wrong_score(score)) is not None:
                raise PluginError(f"score_node returned {wrong}")
            scores[position] = score
        return scores


def _nodes(state: CycleState, nodes: NodeView) -> Iterator[tuple[int, NodeInfo]]:
    for position, node in enumerate(nodes.objects):
        if node is not None:
            state.require_time()
            yield position, NodeInfo(nodes, position, node)


class _Failure(NamedTuple):
    kind: str
    place: frozenset[tuple[str, int]]


def _failure(error: BaseException) -> _Failure:
    """Return the kind of an exception and its place, which is the set of lines in its traceback.

    The traceback of an object that is raised again, such as the exception of a Future, repeats its lines and grows each
    time: so a set, and a limit.
    """
    frames = islice(walk_tb(error.__traceback__), _FRAMES)
    place = frozenset((frame.f_code.co_filename, line) for frame, line in frames)
    return _Failure(type(error).__name__, place)

"""What per-node plugins, which reach no further than a node, say about all nodes, also about those that others reject.

In a run whose feasible nodes differ from pod to pod, a node may become feasible again. What these plugins say about it
has not changed since they were asked, except where a pod of the run was placed on it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.filtering import rejections_of
from extender_service.framework.interface import MAX_NODE_SCORE, PreScore
from extender_service.framework.runtime import run_pre_scores, scores_of
from extender_service.framework.status import Rejections
from extender_service.kube.types.core import Pod
from extender_service.scheduling.question import Question
from extender_service.scheduling.reuse.plugins_by_reach import PluginsByReach


class PerNodeAnswers:
    """The answers about all nodes of a view.

    - `rejections`: of each plugin that rejects any node, by its name
    - `candidates`: the positions of the nodes that none of the plugins rejects
    - `scores`: as (plugin, node of the view), 0 for nodes that are no candidates
    - `totals`: of each candidate, the last known total, until then the sum of these scores; below 0 for others
    """

    def __init__(
        self, rejections: dict[str, Rejections], candidates: NDArray[np.intp], scores: NDArray[np.int64], size: int
    ) -> None:
        self.rejections = rejections
        self.candidates = candidates
        self.scores = np.zeros((len(scores), size), np.int64)
        self.scores[:, candidates] = scores
        self.totals = np.full(size, -1, np.int64)
        self.totals[candidates] = np.add.reduce(scores, axis=0)

    @classmethod
    def of(cls, plugins: PluginsByReach, state: CycleState, question: Question) -> "PerNodeAnswers | None":
        """Ask the plugins, with a state that they may store in; None where only a decision from the beginning can say.

        Raises CycleError.
        """
        pod, view = question.pod, question.nodes.view
        passing = question.nodes.in_question.copy()
        rejections: dict[str, Rejections] = {}
        for plugin in plugins.per_node_filters:
            of_plugin = rejections_of(plugin, state, pod, view)
            if of_plugin is not None and len(of_plugin.rejected):
                if of_plugin.may_be_errors:
                    return None
                rejections[plugin.name] = of_plugin
                passing[of_plugin.rejected] = False
        candidates = passing.nonzero()[0]
        nodes = view.at(candidates)
        if not skip_as_before(plugins.per_node_pre_scores, state, pod, nodes):
            return None
        scores = scores_of(plugins.per_node_scores.values(), state, pod, nodes)
        if not are_in_range(scores).all():
            return None
        return cls(rejections, candidates, scores, len(view))


def skip_as_before(plugins: Sequence[PreScore], state: CycleState, pod: Pod, nodes: NodeView) -> bool:
    """Run PreScore of some plugins; returns whether those skip their Score that do in `state`. Raises CycleError."""
    skipping: set[str] = set()
    run_pre_scores(plugins, state, pod, nodes, skipping)
    return all((plugin.name in skipping) == (plugin.name in state.skipped_scores) for plugin in plugins)


def are_in_range(scores: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return for which nodes all plugins give a score that they may give."""
    # Read as unsigned numbers, negative scores are above the maximum.
    in_range: NDArray[np.bool_] = np.logical_and.reduce(scores.view(np.uint64) <= MAX_NODE_SCORE, axis=0)
    return in_range

"""One run: what is known of the pods in it, and of the next one."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.placements import Placement
from extender_service.framework.status import Rejections
from extender_service.scheduling.decision import Decision, best_of
from extender_service.scheduling.reuse.per_node_answers import PerNodeAnswers
from extender_service.scheduling.reuse.plugins_by_reach import PluginsByReach
from extender_service.scheduling.reuse.pod_signature import PodSignature, pod_signature


class TakenNode(NamedTuple):
    """The node that the last pod took, by its position, and the scores that it has now from `per_node_scores`."""

    plugins: PluginsByReach
    position: int
    scores: NDArray[np.int64]


class Run:
    """Consecutive pods with one signature; each was placed where the previous decision chose.

    - `decision`: the last one that repeats no other; `best` are its best nodes, as of its scores now
    - `version`: that of the cluster for which the decision holds
    - `question`: the last one
    - `state`: that of the decision, before Reserve stored more in it
    - `last_placed`: the position of the node that the pod of `question` was placed on, and the placement; None until it
      is placed, and again once the next pod is asked about
    - `per_node_answers`: known once a cluster-wide plugin has rejected a node
    - `cluster_wide_rejections`: those of the last decision, by plugin; None where that was made from the beginning
    - `can_repeat`: False once the plugins have shown that they must all be asked about each pod
    """

    def __init__(self, decision: Decision, version: tuple[int, ...]) -> None:
        self.decision = decision
        self.version = version
        self.question = decision.question
        self.state = decision.state.for_pod_alike(self.question.pod, self.question.deadline)
        self.last_placed: tuple[int, Placement] | None = None
        self.best = decision.best
        self.per_node_answers: PerNodeAnswers | None = None
        self.cluster_wide_rejections: dict[str, Rejections] | None = None
        self.can_repeat = True

    @cached_property
    def signature(self) -> PodSignature | None:
        """The signature of its pods; None if no other pod can have it."""
        return pod_signature(self.decision.question.pod)

    @cached_property
    def plugins(self) -> PluginsByReach | None:
        """How its plugins are asked about the next pod; None if all are asked about all of it."""
        return None if self.signature is None else PluginsByReach.of(self.decision, self.state)

    @cached_property
    def cluster_wide_filter_names(self) -> frozenset[str]:
        """The names of the plugins that may reject any node."""
        plugins = self.plugins
        return frozenset() if plugins is None else frozenset(each.name for each in plugins.cluster_wide_filters)

    def continue_from(self, decision: Decision) -> bool:
        """Continue from a decision about the next pod that was made from the beginning; return whether that is
        possible."""
        state, names = decision.state, decision.pre_filter.node_names
        if (
            decision.totals is None
            or state.skipped_filters != self.state.skipped_filters
            or state.skipped_scores != self.state.skipped_scores
            or (names is None) != (self.decision.pre_filter.node_names is None)
        ):
            return False
        self.decision, self.question, self.best = decision, decision.question, decision.best
        self.cluster_wide_rejections = None
        return True

    def is_rejected_as_before(self, rejections: dict[str, Rejections]) -> bool:
        """Return whether these rejections of cluster-wide plugins are known to be those of the last decision: none
        again, or the very same ones."""
        before = self.cluster_wide_rejections
        if before is not None:
            return len(rejections) == len(before) and all(rejections[name] is before.get(name) for name in rejections)
        if rejections:
            return False
        return not any(each.plugin in self.cluster_wide_filter_names for each in self.decision.verdicts.settled())

    def change_scores(self, taken: TakenNode) -> None:
        """Give the node that the last pod took other scores from the per-node plugins, and find the best nodes again.

        Where there are cluster-wide scores, the best nodes are found once those are known.
        """
        decision, (plugins, position, scores) = self.decision, taken
        feasible, totals = decision.feasible, decision.totals
        assert decision.scores is not None
        assert totals is not None
        index = position if len(feasible) == len(decision.verdicts.passing) else int(feasible.searchsorted(position))
        before = int(totals[index])
        decision.scores.change(index, [*plugins.per_node_scores], scores)
        now = int(totals[index])
        if plugins.cluster_wide_scores:
            return
        if now < before and len(self.best) > 1:  # it was among the best
            self.best = self.best[self.best != position]
        elif now != before:
            self.best = best_of(feasible, totals)

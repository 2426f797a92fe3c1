"""Looking ahead in a run: the scores of nodes with one more pod of it, with two and so on.

They are computed for all nodes that are likely to be chosen next, in one call of each per-node plugin, on hypothetical
nodes. Where runs are short, nothing is computed ahead: the plugins are asked about the node that was taken.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.placements import Placement
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.filtering import UNRESTRICTED, filter_nodes
from extender_service.framework.runtime import scores_of
from extender_service.scheduling.decision import best_of
from extender_service.scheduling.question import Question
from extender_service.scheduling.reuse.per_node_answers import are_in_range, skip_as_before
from extender_service.scheduling.reuse.plugins_by_reach import PluginsByReach
from extender_service.scheduling.reuse.run import Run

# Of how many nodes the next states are computed together, and at least how many states: a few hundred take hardly more
# time than one.
_NODES_AHEAD = 64
_STATES_AHEAD = 512
# Computing states ahead takes as long as so many decisions.
_WORTHWHILE = 8
# The most decisions after states were computed in vain before the next attempt. Meanwhile, each node that was taken is
# asked about by itself.
_LONGEST_PAUSE = 64

_UNCHANGED = RowChanges([], [], [])


class StatesAhead:
    """The scores of nodes with one more pod, two more and so on: for each position the states that are still to come.

    `scores` are (plugin, state); a state that is not `feasible` has none.
    """

    def __init__(
        self, positions: NDArray[np.intp], depth: int, size: int, feasible: NDArray[np.bool_], scores: NDArray[np.int64]
    ) -> None:
        self.feasible = feasible
        self.scores = scores
        self.used = 0
        self._next = np.zeros(size, np.intp)
        self._next[positions] = np.arange(len(positions)) * depth
        self._left = np.zeros(size, np.intp)
        self._left[positions] = depth

    def next_of(self, position: int) -> int:
        """Move on to the next state of the node at a position, and return it; -1 if it is not known."""
        if not self._left[position]:
            return -1
        state = int(self._next[position])
        self._next[position] += 1
        self._left[position] -= 1
        self.used += 1
        return state


class LookingAhead:
    """Has the states ahead of the current run, if they are known, and computes them if that was worthwhile lately."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._states: StatesAhead | None = None
        self._in_vain = 0  # in a row
        self._pause = 0

    def next_scores(
        self, run: Run, plugins: PluginsByReach, position: int, placement: Placement, question: Question
    ) -> NDArray[np.int64] | None:
        """Return the scores of a node from `per_node_scores`, now that a pod was placed on it; None if no other pod of
        the run fits there, or they are not known. Raises CycleError.
        """
        states = self._states
        state = -1 if states is None else states.next_of(position)
        if state < 0:
            self.drop_states()
            if self._pause:
                self._pause -= 1
                return self._scores_now(run, plugins, position, question)
            states = self._compute_states(run, plugins, position, placement, question)
            if states is None:
                return None
            state = states.next_of(position)
        assert states is not None
        return states.scores[:, state] if states.feasible[state] else None

    def drop_states(self) -> None:
        """Drop the states that were computed ahead, and note whether that was worthwhile."""
        states, self._states = self._states, None
        if states is not None and states.used >= _WORTHWHILE:
            self._in_vain = 0
        elif states is not None:
            self.pause_longer()

    def pause_longer(self) -> None:
        """Compute no states for a while, and for longer than after the attempt before, as that was in vain."""
        self._in_vain += 1
        self._pause = min(1 << self._in_vain, _LONGEST_PAUSE) - 1

    def _scores_now(
        self, run: Run, plugins: PluginsByReach, position: int, question: Question
    ) -> NDArray[np.int64] | None:
        """Return the same as `next_scores`, without looking ahead. Raises CycleError."""
        asked = _ask_per_node(run, plugins, self._cluster.view(None).at(np.array([position])), question)
        if asked is None:
            return None
        feasible, scores = asked
        return scores[:, 0] if feasible[0] else None

    def _compute_states(
        self, run: Run, plugins: PluginsByReach, position: int, placement: Placement, question: Question
    ) -> StatesAhead | None:
        """Compute the next states of the nodes that are likely to be chosen, the one just taken among them.

        Raises CycleError.
        """
        likely = _likely(run, position)
        depth = max(_STATES_AHEAD // len(likely), 1)
        added = np.tile(np.arange(1, depth + 1), len(likely))
        added[:depth] -= 1  # the node that was taken comes first, and has this pod already
        positions = np.repeat(likely, depth)
        states = np.arange(len(positions))
        more = RowChanges(np.repeat(states, added), np.full(int(added.sum()), placement.slot), np.ones(added.sum()))
        nodes = self._cluster.view(None).changed(_UNCHANGED).at(positions).changed(more)
        # In half of the time that is left: if that is too little, the other half is for a decision from the beginning.
        until = (run.decision.profile.clock() + question.deadline) / 2
        asked = _ask_per_node(run, plugins, nodes, msgspec.structs.replace(question, deadline=until))
        if asked is None:
            self.pause_longer()
            return None
        self._states = StatesAhead(likely, depth, len(question.nodes.view), *asked)
        return self._states


def _ask_per_node(
    run: Run, plugins: PluginsByReach, nodes: NodeView, question: Question
) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
    """Return which nodes, of those that passed before, the per-node plugins let pass, and the scores from
    `per_node_scores`; None if PreScore of some skips where it did not before, or the reverse. Raises CycleError.
    """
    pod, profile = question.pod, run.decision.profile
    state = run.state.for_pod_alike(pod, question.deadline)
    state.skipped_filters |= run.cluster_wide_filter_names | plugins.fixed_filters
    verdicts = filter_nodes(profile, state, pod, nodes, np.ones(len(nodes), np.bool_), UNRESTRICTED)
    if not skip_as_before(plugins.per_node_pre_scores, state, pod, nodes):
        return None
    scores = scores_of(plugins.per_node_scores.values(), state, pod, nodes)
    # What is out of range is an error, which only a decision from the beginning can say.
    return verdicts.passing & are_in_range(scores), scores


def _likely(run: Run, position: int) -> NDArray[np.intp]:
    """Return the positions of the nodes that are likely to be chosen next, that at `position` first."""
    best, nodes, totals, answers = run.best, run.decision.feasible, run.decision.totals, run.per_node_answers
    assert totals is not None
    if answers is not None:  # other nodes may be feasible next
        answers.totals[nodes] = totals
        nodes = answers.candidates
        totals = answers.totals.take(nodes)
        best = best_of(nodes, totals)
    if len(best) < _NODES_AHEAD < len(totals):
        best = nodes[np.argpartition(totals, -_NODES_AHEAD)[-_NODES_AHEAD:]]
    elif len(best) < _NODES_AHEAD:
        best = nodes
    return np.concatenate(([position], best[best != position]))

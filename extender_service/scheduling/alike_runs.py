"""Runs of pods alike: a decision about the next one depends on the decision before it, and on the node taken since.

kube-scheduler's cycle begins at the first plugin for each pod. But if the pod before was alike, and was placed, and
nothing else has changed, then most plugins would answer differently only about the node that it was placed on, if at
all (Plugin.reach). What that node will be worth with one more such pod, with two and so on, is computed beforehand for
all nodes that are likely to be chosen next, in one call of each plugin. Plugins that reach further are asked again,
each time about all nodes, if they only score; if they filter, all plugins are.

A run ends when a pod of another kind comes, when the cluster changes in another way, and when a node has no more room.
"""

import logging
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.nominations import Nominated
from extender_service.cluster.state.placements import Placement
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError, call
from extender_service.framework.interface import MAX_NODE_SCORE, Plugin, PreFilter, PreScore, Reach, Score
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import (
    PreFilterOutcome,
    filter_nodes,
    run_pre_scores,
    scores_of,
)
from extender_service.framework.status import Code, Status
from extender_service.kube.types.core import Pod
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import Decision, best_of, decide
from extender_service.scheduling.pod_kinds import Kind, kind_of
from extender_service.scheduling.question import Question

log = logging.getLogger(__name__)

P = TypeVar("P", bound=Plugin)

# Of how many nodes the next states are computed together, and at least how many states: a few hundred take hardly more
# time than one.
_NODES_AHEAD = 64
_STATES_AHEAD = 512
# Computing states ahead takes as long as so many decisions.
_WORTHWHILE = 8
# The most decisions after states were computed in vain before the next attempt.
_LONGEST_PAUSE = 64
# For how many pods in a row it is taken as known that a decision about their kind cannot be repeated.
_NOT_REPEATED = 64

_EVERYWHERE = PreFilterOutcome(None, None, [])
_UNCHANGED = RowChanges([], [], [])


class _StatesAhead:
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

    def take(self, position: int) -> int:
        """Return the next state of the node at a position, -1 if it is not known."""
        if not self._left[position]:
            return -1
        state = int(self._next[position])
        self._next[position] += 1
        self._left[position] -= 1
        self.used += 1
        return state


class _Run:
    """Decisions about pods alike, each placed where the last decision chose.

    `version` is the cluster's, for which the decision holds. `state` is that of the decision, before Reserve stored
    more in it. `question` is the last one. `taken` is the placement since, with its position.
    """

    def __init__(self, decision: Decision, version: tuple[int, ...]) -> None:
        self.decision = decision
        self.version = version
        self.question = decision.question
        self.state = decision.state.for_pod_alike(self.question.pod, self.question.deadline)
        self.taken: tuple[int, Placement] | None = None
        self.best = decision.best
        self.ahead: _StatesAhead | None = None

    @cached_property
    def kind(self) -> Kind | None:
        """What its pods have in common; None if no other pod can belong to it."""
        return kind_of(self.decision.question.pod)

    @cached_property
    def plugins(self) -> "_Plugins | None":
        """How its plugins are asked about the next pod; None if all are asked about all of it."""
        return None if self.kind is None else _Plugins.of(self.decision.profile, self.state)


class _Plugins(NamedTuple):
    """How plugins are asked about the next pod of a run.

    - `of_node`: the scores of a node change where a pod was placed on it; by the row of the scores
    - `pre_filters`, `pre_scores`, `scores`: are asked again about all nodes, as far as they do not filter; by the row
    """

    of_node: dict[int, Score]
    pre_filters: list[PreFilter]
    pre_scores: list[PreScore]
    scores: dict[int, Score]

    @classmethod
    def of(cls, profile: Profile, state: CycleState) -> "_Plugins | None":
        """Sort the plugins of a decision by their reach; None if a placed pod may change the verdict on any node."""
        scoring = [plugin for plugin, _ in profile.score if plugin.name not in state.skipped_scores]
        # One instance of a plugin serves all of its extension points.
        asked = {plugin.name: plugin for plugin in (*profile.pre_filter, *profile.filter, *profile.pre_score, *scoring)}
        reaches = {name: _reach_of(plugin, state) for name, plugin in asked.items()}

        def reach_far(plugins: Iterable[P]) -> list[P]:
            return [plugin for plugin in plugins if reaches[plugin.name] is Reach.CLUSTER]

        filters = [plugin for plugin in reach_far(profile.filter) if plugin.name not in state.skipped_filters]
        pre_filters = reach_far(profile.pre_filter)
        by_row = dict(enumerate(scoring))
        of_node = {row: plugin for row, plugin in by_row.items() if reaches[plugin.name] is Reach.NODE}
        if (
            filters
            or any(plugin.name not in state.skipped_filters for plugin in pre_filters)
            or any(type(plugin).normalize is not Score.normalize for plugin in of_node.values())
        ):
            return None
        far = {row: plugin for row, plugin in by_row.items() if reaches[plugin.name] is Reach.CLUSTER}
        return cls(of_node, pre_filters, reach_far(profile.pre_score), far)


class AlikeRuns:
    """Follows the `current` run of pods alike, if there is one.

    `repeated` is the number of decisions that were not made from the beginning.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.current: _Run | None = None
        self._in_vain = 0  # in a row
        self._pause = 0
        # A kind whose plugins all are asked about each pod, and for how many more pods that is taken as known.
        self._not_repeated: tuple[Profile, Kind] | None = None
        self._not_repeated_left = 0
        self.repeated = 0

    def decide(self, profile: Profile, question: Question, nominated: Nominated) -> Decision:
        """Decide about a pod. Raises like `decide` of decision.py."""
        run = self.current
        state = None if run is None else self._next_state(run, profile, question, nominated)
        if run is not None and state is not None:
            run.question = question
            # The plugins of a sample of decisions are timed.
            recorder = profile.sampled_recorder()
            if recorder is None:
                self.repeated += 1
                return run.decision.repeated(question, state, run.best)
            state = CycleState(question.pod, recorder, question.deadline, profile.clock, profile.request_rules)
            return decide(profile, question, nominated, state)
        self._end()
        decision = decide(profile, question, nominated)
        if (
            decision.totals is not None
            and not nominated
            and profile.treats_alike
            and _is_about_all(question)
            and not self._cannot_repeat(profile, question.pod)
        ):
            self.current = _Run(decision, self._cluster.version)
        return decision

    def _cannot_repeat(self, profile: Profile, pod: Pod) -> bool:
        """Return whether a decision about such a pod could not be repeated lately: then no run begins."""
        if not self._not_repeated_left:
            return False
        self._not_repeated_left -= 1
        return self._not_repeated == (profile, kind_of(pod))

    def before_placing(self, pod: Pod, decision: Decision | None) -> None:
        """Note that a pod is about to be placed, after Reserve, which may have changed the cluster: the run ends if it
        has, or if that is not the pod decided about last."""
        run = self.current
        if run is None:
            return
        is_about_next = decision is not None and decision.question is run.question and decision.chosen is not None
        is_next = is_about_next and run.question.pod is pod
        if not is_next or run.taken is not None or run.version != self._cluster.version:
            self._end()

    def placed(self, decision: Decision | None, placement: Placement) -> None:
        """Note that a pod was placed; nothing else may have changed since `before_placing`."""
        run = self.current
        if run is None or decision is None or decision.chosen is None:
            return
        if decision.verdicts.view.name_at(decision.chosen) != placement.node_name:
            self._end()
            return
        run.taken = decision.chosen, placement
        run.version = self._cluster.version

    def _next_state(self, run: _Run, profile: Profile, question: Question, nominated: Nominated) -> CycleState | None:
        """Return the state of the decision about the next pod of a run; None if the question is not about such a pod.

        Then the scores of the run are those after the last placement.
        """
        if (
            nominated
            or run.taken is None
            or run.decision.profile is not profile
            or run.version != self._cluster.version
            or not _is_about_all(question)
        ):
            return None
        if run.kind is None or kind_of(question.pod) != run.kind:
            return None
        if run.plugins is None:
            self._not_repeated, self._not_repeated_left = (profile, run.kind), _NOT_REPEATED
            return None
        taken, plugins = run.taken, run.plugins
        run.taken = None
        state = run.state.for_pod_alike(question.pod, question.deadline)
        try:
            if self._follow(run, plugins, *taken, question) and _ask_far(run, plugins, question, state):
                return state
        except CycleError:
            self._pause_longer()  # a decision from the beginning meets the error, if it is one
        return None

    def _follow(self, run: _Run, plugins: _Plugins, position: int, placement: Placement, question: Question) -> bool:
        """Give a node the scores that it has now that a pod was placed on it; returns whether that is possible.

        Raises CycleError.
        """
        ahead = run.ahead
        state = -1 if ahead is None else ahead.take(position)
        if state < 0:
            ahead = self._look_ahead(run, plugins, position, placement, question)
            if ahead is None:
                return False
            state = ahead.take(position)
        assert ahead is not None
        if not ahead.feasible[state]:
            return False
        _change(run, plugins, position, ahead.scores[:, state])
        return True

    def _look_ahead(
        self, run: _Run, plugins: _Plugins, position: int, placement: Placement, question: Question
    ) -> "_StatesAhead | None":
        """Compute the next states of the nodes that are likely to be chosen, the one just taken among them.

        Raises CycleError.
        """
        self._judge(run)
        if self._pause:
            self._pause -= 1
            return None
        likely = _likely(run, position)
        depth = max(_STATES_AHEAD // len(likely), 1)
        added = np.tile(np.arange(1, depth + 1), len(likely))
        added[:depth] -= 1  # the node that was taken comes first, and has this pod already
        positions = np.repeat(likely, depth)
        states = np.arange(len(positions))
        more = RowChanges(np.repeat(states, added), np.full(int(added.sum()), placement.slot), np.ones(added.sum()))
        nodes = self._cluster.view(None).changed(_UNCHANGED).at(positions).changed(more)
        pod, profile = question.pod, run.decision.profile
        state = run.state.for_pod_alike(pod, question.deadline)
        verdicts = filter_nodes(profile, state, pod, nodes, np.ones(len(nodes), np.bool_), _EVERYWHERE)
        scores = np.array(scores_of(plugins.of_node.values(), state, pod, nodes), np.int64)
        scores = scores.reshape(len(plugins.of_node), len(nodes))
        # What is out of range is an error, which only a decision from the beginning can say.
        feasible = verdicts.passing & (scores.view(np.uint64) <= MAX_NODE_SCORE).all(axis=0)
        run.ahead = _StatesAhead(likely, depth, len(question.nodes.view), feasible, scores)
        return run.ahead

    def _end(self) -> None:
        run, self.current = self.current, None
        if run is not None:
            self._judge(run)

    def _judge(self, run: _Run) -> None:
        """Drop the states that were computed ahead, and note whether that was worthwhile."""
        ahead, run.ahead = run.ahead, None
        if ahead is not None and ahead.used >= _WORTHWHILE:
            self._in_vain = 0
        elif ahead is not None:
            self._pause_longer()

    def _pause_longer(self) -> None:
        self._in_vain += 1
        self._pause = min(1 << self._in_vain, _LONGEST_PAUSE) - 1


def _reach_of(plugin: Plugin, state: CycleState) -> Reach:
    """Return the reach of a plugin for pods like that of a state; any answer may differ if it fails to say."""
    try:
        reach: object = plugin.reach_for(state, state.pod)
    except Exception:
        log.exception("reach_for failed", extra={"plugin": plugin.name})
        return Reach.CLUSTER
    if isinstance(reach, Reach):
        return reach
    log.error("reach_for must return a Reach", extra={"plugin": plugin.name, "returned": type(reach).__name__})
    return Reach.CLUSTER


def _is_about_all(question: Question) -> bool:
    """Return whether a question is about all nodes, as kube-scheduler's own is."""
    nodes = question.nodes
    is_plain = question.must_score and question.search is None and not question.is_nominated
    return is_plain and isinstance(nodes, AllNodes) and nodes.are_all


def _likely(run: _Run, position: int) -> NDArray[np.intp]:
    """Return the positions of the nodes that are likely to be chosen next, that at `position` first."""
    best, feasible, totals = run.best, run.decision.feasible, run.decision.totals
    assert totals is not None
    if len(best) < _NODES_AHEAD < len(totals):
        best = feasible[np.argpartition(totals, -_NODES_AHEAD)[-_NODES_AHEAD:]]
    elif len(best) < _NODES_AHEAD:
        best = feasible
    return np.concatenate(([position], best[best != position]))


def _ask_far(run: _Run, plugins: _Plugins, question: Question, state: CycleState) -> bool:
    """Ask the plugins whose scores may change on any node; returns whether they have scores for the same nodes again.

    Raises CycleError.
    """
    pod, decision, nodes = question.pod, run.decision, question.nodes.view
    if len(decision.feasible) < len(nodes):
        nodes = nodes.at(decision.feasible)
    for pre_filter in plugins.pre_filters:
        answer = call(state, pre_filter, "PreFilter", pre_filter.pre_filter, state, pod)
        if not isinstance(answer, Status) or answer.code != Code.SKIP:
            return False
    skipping: set[str] = set()
    run_pre_scores(plugins.pre_scores, state, pod, nodes, skipping)
    if any((plugin.name in skipping) != (plugin.name in state.skipped_scores) for plugin in plugins.pre_scores):
        return False
    scores = decision.scores
    assert scores is not None
    for row, of_plugin in zip(plugins.scores, scores_of(plugins.scores.values(), state, pod, nodes), strict=True):
        scores.replace(row, of_plugin)
    if plugins.scores:
        run.best = best_of(decision.feasible, scores.totals)
    return True


def _change(run: _Run, plugins: _Plugins, position: int, scores: NDArray[np.int64]) -> None:
    """Give a node other scores from the plugins that reach no further, and find the best nodes again.

    Where plugins reach further, they are found once those have been asked.
    """
    decision = run.decision
    feasible, totals = decision.feasible, decision.totals
    assert decision.scores is not None
    assert totals is not None
    index = position if len(feasible) == len(decision.verdicts.passing) else int(feasible.searchsorted(position))
    before = int(totals[index])
    decision.scores.change(index, [*plugins.of_node], scores)
    now = int(totals[index])
    if plugins.scores:
        return
    if now < before and len(run.best) > 1:  # it was among the best
        run.best = run.best[run.best != position]
    elif now != before:
        run.best = best_of(feasible, totals)

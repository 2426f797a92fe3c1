"""Runs of pods alike: a decision about the next one depends on the decision before it, and on the node taken since.

kube-scheduler's cycle begins at the first plugin for each pod. But if the pod before was alike, and was placed, and
nothing else has changed, then most plugins would answer differently only about the node that it was placed on, if at
all (Plugin.reach). What that node will be worth with one more such pod, with two and so on, is computed beforehand for
all nodes that are likely to be chosen next, in one call of each plugin. Plugins that reach further are asked again,
each time about all nodes. Where one of these filters, and other nodes are feasible than for the pod before, the scores
of the others are put together from what is known of each node (near_answers.py), and normalized again.

A run ends when a pod of another kind is placed, when the cluster changes in another way, and when a node has no more
room. Pods of other kinds that fit nowhere do not end it.
"""

from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.cluster.state.placements import Placement
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError, OutOfTimeError, call
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import (
    PreFilterOutcome,
    Scores,
    filter_nodes,
    rejections_of,
    scores_of,
    weighed,
)
from extender_service.framework.status import Code, Rejections, Status
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import Decision, best_of, decide
from extender_service.scheduling.near_answers import NearAnswers, are_in_range, skip_as_before
from extender_service.scheduling.pod_kinds import Kind, kind_of, may_be_alike
from extender_service.scheduling.question import Question
from extender_service.scheduling.run_plugins import RunPlugins

# Of how many nodes the next states are computed together, and at least how many states: a few hundred take hardly more
# time than one.
_NODES_AHEAD = 64
_STATES_AHEAD = 512
# Computing states ahead takes as long as so many decisions.
_WORTHWHILE = 8
# The most decisions after states were computed in vain before the next attempt. Meanwhile, each node that was taken is
# asked about by itself.
_LONGEST_PAUSE = 64
# For how many pods in a row it is taken as known that a decision about their kind cannot be repeated.
_NOT_REPEATED = 64
# After so many pods in a row that were unlike the one before, a run begins with the second of two that are alike.
_MANY_UNLIKE = 16

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
    more in it. `question` is the last one. `taken` is the placement since, with its position. `near` is known once a
    plugin that reaches far has rejected a node. `far` are the rejections of those plugins in the last decision, None
    where that was made from the beginning.
    """

    def __init__(self, decision: Decision, version: tuple[int, ...]) -> None:
        self.decision = decision
        self.version = version
        self.question = decision.question
        self.state = decision.state.for_pod_alike(self.question.pod, self.question.deadline)
        self.taken: tuple[int, Placement] | None = None
        self.best = decision.best
        self.ahead: _StatesAhead | None = None
        self.near: NearAnswers | None = None
        self.far: dict[str, Rejections] | None = None

    @cached_property
    def kind(self) -> Kind | None:
        """What its pods have in common; None if no other pod can belong to it."""
        return kind_of(self.decision.question.pod)

    @cached_property
    def plugins(self) -> RunPlugins | None:
        """How its plugins are asked about the next pod; None if all are asked about all of it."""
        return None if self.kind is None else RunPlugins.of(self.decision, self.state)

    @cached_property
    def far_names(self) -> frozenset[str]:
        """The names of the plugins that may reject any node."""
        return frozenset() if self.plugins is None else frozenset(each.name for each in self.plugins.far_filters)

    def goes_on_from(self, decision: Decision) -> bool:
        """Let the run go on from a decision about its next pod that was made from the beginning; returns whether that
        is possible."""
        state, names = decision.state, decision.pre_filter.node_names
        if (
            decision.totals is None
            or state.skipped_filters != self.state.skipped_filters
            or state.skipped_scores != self.state.skipped_scores
            or (names is None) != (self.decision.pre_filter.node_names is None)
        ):
            return False
        self.decision, self.question, self.best, self.far = decision, decision.question, decision.best, None
        return True

    def is_rejected_by(self, far: dict[str, Rejections]) -> bool:
        """Return whether the plugins that reach far reject what they rejected in the last decision, as far as is known:
        nothing again, or the very same rejections."""
        before = self.far
        if before is not None:
            return len(far) == len(before) and all(far[name] is before.get(name) for name in far)
        return not far and not any(settled.plugin in self.far_names for settled in self.decision.verdicts.settled())


class _Taken(NamedTuple):
    """The node that was taken last, by its position, and the scores that it has now from `node_scores`."""

    plugins: RunPlugins
    position: int
    scores: NDArray[np.int64]


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
        # The last pod with which a run may have begun, and how many in a row were unlike the one before.
        self._before: Pod | None = None
        self._unlike = 0
        self.repeated = 0

    def decide(self, profile: Profile, question: Question, nominated: Nominated) -> Decision:
        """Decide about a pod. Raises like `decide` of decision.py."""
        run = self.current
        # The plugins of a sample of decisions are timed.
        recorder = profile.sampled_recorder()
        taken = None if run is None else self._take(run, profile, question, nominated)
        if run is not None and taken is not None and recorder is None:
            again = self._again(run, taken, question)
            if again is not None:
                run.question = question
                self.repeated += 1
                return again
        is_sample = taken is not None and recorder is not None
        if run is not None and run.taken is None and not is_sample:
            self._end()
        state = CycleState(question.pod, recorder, question.deadline, profile.clock, profile.request_rules)
        decision = decide(profile, question, nominated, state)
        if run is not None and is_sample and run.goes_on_from(decision):
            return decision
        if run is not None and run.taken is not None and not len(decision.feasible):
            return decision  # about another kind: nothing follows from it, so the run goes on
        self._end()
        if (
            decision.totals is not None
            and not nominated
            and profile.treats_alike
            and _is_about_all(question)
            and not self._cannot_repeat(profile, question.pod)
            and self._may_go_on(question.pod)
        ):
            self.current = _Run(decision, self._cluster.version)
        return decision

    def _cannot_repeat(self, profile: Profile, pod: Pod) -> bool:
        """Return whether a decision about such a pod could not be repeated lately: then no run begins."""
        if not self._not_repeated_left:
            return False
        self._not_repeated_left -= 1
        return self._not_repeated == (profile, kind_of(pod))

    def _may_go_on(self, pod: Pod) -> bool:
        """Return whether a pod may be the first of several, by whether those before it were; note the pod."""
        before, self._before = self._before, pod
        self._unlike = 0 if before is not None and may_be_alike(before, pod) else self._unlike + 1
        return self._unlike < _MANY_UNLIKE

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

    def _take(self, run: _Run, profile: Profile, question: Question, nominated: Nominated) -> _Taken | None:
        """Return what the node that was taken last is worth to the next pod of a run; None if the question is not about
        such a pod, or only a decision from the beginning can answer it.
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
            self._note_not_repeated(run)
            return None
        (position, placement), run.taken = run.taken, None
        try:
            scores = self._next_scores(run, run.plugins, position, placement, question)
        except CycleError as error:
            self._give_up(error, profile, question)
            return None
        if scores is None:
            return None
        if run.near is not None:
            run.near.scores[:, position] = scores
        return _Taken(run.plugins, position, scores)

    def _again(self, run: _Run, taken: _Taken, question: Question) -> Decision | None:
        """Return the decision about the next pod of a run; None if only one from the beginning can be made."""
        try:
            return self._decided_again(run, taken, question)
        except CycleError as error:
            self._give_up(error, run.decision.profile, question)
        return None

    def _give_up(self, error: CycleError, profile: Profile, question: Question) -> None:
        """Leave a question to a decision from the beginning, which meets the error, if it is one.

        Raises OutOfTimeError if no time is left for that.
        """
        self._pause_longer()
        if isinstance(error, OutOfTimeError) and profile.clock() > question.deadline:
            raise error

    def _note_not_repeated(self, run: _Run) -> None:
        assert run.kind is not None
        self._not_repeated, self._not_repeated_left = (run.decision.profile, run.kind), _NOT_REPEATED

    def _next_scores(
        self, run: _Run, plugins: RunPlugins, position: int, placement: Placement, question: Question
    ) -> NDArray[np.int64] | None:
        """Return the scores of a node from `node_scores`, now that a pod was placed on it; None if it has no more room,
        or they are not known. Raises CycleError.
        """
        ahead = run.ahead
        state = -1 if ahead is None else ahead.take(position)
        if state < 0:
            self._drop_states_ahead(run)
            if self._pause:
                self._pause -= 1
                return self._scores_now(run, plugins, position, question)
            ahead = self._look_ahead(run, plugins, position, placement, question)
            if ahead is None:
                return None
            state = ahead.take(position)
        assert ahead is not None
        return ahead.scores[:, state] if ahead.feasible[state] else None

    def _scores_now(
        self, run: _Run, plugins: RunPlugins, position: int, question: Question
    ) -> NDArray[np.int64] | None:
        """Return the same as `_next_scores`, without looking ahead. Raises CycleError."""
        asked = _asked_near(run, plugins, self._cluster.view(None).at(np.array([position])), question)
        if asked is None:
            return None
        feasible, scores = asked
        return scores[:, 0] if feasible[0] else None

    def _look_ahead(
        self, run: _Run, plugins: RunPlugins, position: int, placement: Placement, question: Question
    ) -> "_StatesAhead | None":
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
        asked = _asked_near(run, plugins, nodes, msgspec.structs.replace(question, deadline=until))
        if asked is None:
            self._pause_longer()
            return None
        run.ahead = _StatesAhead(likely, depth, len(question.nodes.view), *asked)
        return run.ahead

    def _decided_again(self, run: _Run, taken: _Taken, question: Question) -> Decision | None:
        """Return the same as `_again`. Raises CycleError."""
        plugins = taken.plugins
        pod, view, before = question.pod, question.nodes.view, run.decision
        state = run.state.for_pod_alike(pod, question.deadline)
        far = _far_rejections(plugins, pod, view, state)
        if far is None:
            return None
        is_as_before, run.far = run.is_rejected_by(far), far
        if is_as_before:  # then Filter says the same
            _change(run, taken)
            return before.repeated(question, state, run.best) if _score_again(run, plugins, pod, view, state) else None
        near = self._near(run, plugins, question)
        if near is None:
            return None
        verdicts = Verdicts.of_all(view, question.nodes.asked, _in_order(before.profile, far | near.rejections))
        feasible, scores = verdicts.passing.nonzero()[0], before.scores
        if len(feasible) < 2:
            return None
        if np.array_equal(feasible, before.feasible):
            _change(run, taken)
            if not _score_again(run, plugins, pod, view, state):
                return None
        else:
            scores = _scores_anew(before.profile, plugins, near, pod, view.at(feasible), feasible, state)
            if scores is None:
                return None
            run.best = best_of(feasible, scores.totals)
        run.decision = before.followed(question, state, verdicts, feasible, scores, run.best)
        return run.decision

    def _near(self, run: _Run, plugins: RunPlugins, question: Question) -> NearAnswers | None:
        """Return what plugins that reach no further say about all nodes now; None where that is not known."""
        if run.near is None:
            state = run.state.for_pod_alike(question.pod, question.deadline)
            run.near = NearAnswers.of(plugins, state, question)
            if run.near is None:
                self._note_not_repeated(run)
            else:
                run.state = state
        return run.near

    def _end(self) -> None:
        run, self.current = self.current, None
        if run is not None:
            self._drop_states_ahead(run)

    def _drop_states_ahead(self, run: _Run) -> None:
        """Drop the states that were computed ahead, and note whether that was worthwhile."""
        ahead, run.ahead = run.ahead, None
        if ahead is not None and ahead.used >= _WORTHWHILE:
            self._in_vain = 0
        elif ahead is not None:
            self._pause_longer()

    def _pause_longer(self) -> None:
        self._in_vain += 1
        self._pause = min(1 << self._in_vain, _LONGEST_PAUSE) - 1


def _is_about_all(question: Question) -> bool:
    """Return whether a question is about all nodes, as kube-scheduler's own is."""
    nodes = question.nodes
    is_plain = question.must_score and question.sample_nodes is None and not question.is_nominated
    return is_plain and isinstance(nodes, AllNodes) and nodes.are_all


def _asked_near(
    run: _Run, plugins: RunPlugins, nodes: NodeView, question: Question
) -> tuple[NDArray[np.bool_], NDArray[np.int64]] | None:
    """Return which nodes, of those that passed before, the plugins that reach no further let pass, and the scores from
    `node_scores`; None if PreScore of some skips where it did not before, or the reverse. Raises CycleError.
    """
    pod, profile = question.pod, run.decision.profile
    state = run.state.for_pod_alike(pod, question.deadline)
    state.skipped_filters |= run.far_names | plugins.fixed_filters
    verdicts = filter_nodes(profile, state, pod, nodes, np.ones(len(nodes), np.bool_), _EVERYWHERE)
    if not skip_as_before(plugins.node_pre_scores, state, pod, nodes):
        return None
    scores = scores_of(plugins.node_scores.values(), state, pod, nodes)
    # What is out of range is an error, which only a decision from the beginning can say.
    return verdicts.passing & are_in_range(scores), scores


def _likely(run: _Run, position: int) -> NDArray[np.intp]:
    """Return the positions of the nodes that are likely to be chosen next, that at `position` first."""
    best, nodes, totals, near = run.best, run.decision.feasible, run.decision.totals, run.near
    assert totals is not None
    if near is not None:  # other nodes may be feasible next
        near.totals[nodes] = totals
        nodes = near.candidates
        totals = near.totals.take(nodes)
        best = best_of(nodes, totals)
    if len(best) < _NODES_AHEAD < len(totals):
        best = nodes[np.argpartition(totals, -_NODES_AHEAD)[-_NODES_AHEAD:]]
    elif len(best) < _NODES_AHEAD:
        best = nodes
    return np.concatenate(([position], best[best != position]))


def _far_rejections(plugins: RunPlugins, pod: Pod, view: NodeView, state: CycleState) -> dict[str, Rejections] | None:
    """Ask the plugins that reach far, by their name where they reject any node; None where only a decision from the
    beginning can say. Raises CycleError.
    """
    if not _are_prepared(plugins, pod, state):
        return None
    rejections: dict[str, Rejections] = {}
    for plugin in plugins.far_filters:
        of_plugin = rejections_of(plugin, state, pod, view)
        if of_plugin is not None and len(of_plugin.rejected):
            if of_plugin.may_be_errors:
                return None
            rejections[plugin.name] = of_plugin
    return rejections


def _are_prepared(plugins: RunPlugins, pod: Pod, state: CycleState) -> bool:
    """Run PreFilter of plugins that reach far; returns whether they skip Filter, or run it on all nodes, as before.

    Raises CycleError.
    """
    for plugin in plugins.far_pre_filters:
        answer = call(state, plugin, "PreFilter", plugin.pre_filter, state, pod)
        if plugin.name not in state.skipped_filters:
            if answer is not None:
                return False
        elif not isinstance(answer, Status) or answer.code != Code.SKIP:
            return False
    return True


def _in_order(profile: Profile, rejections: dict[str, Rejections]) -> list[tuple[str, Rejections]]:
    """Return rejections in the order in which the plugins of a profile filter."""
    return [(plugin.name, rejections[plugin.name]) for plugin in profile.filter if plugin.name in rejections]


def _score_again(run: _Run, plugins: RunPlugins, pod: Pod, view: NodeView, state: CycleState) -> bool:
    """Ask the plugins whose scores may change on any node; returns whether they have scores for the same nodes again.

    Raises CycleError.
    """
    far_scores = plugins.far_scores
    if not plugins.far_pre_scores and not far_scores:
        return True
    decision, scores = run.decision, run.decision.scores
    nodes = view if len(decision.feasible) == len(view) else view.at(decision.feasible)
    if not skip_as_before(plugins.far_pre_scores, state, pod, nodes):
        return False
    assert scores is not None
    for row, of_plugin in zip(far_scores, scores_of(far_scores.values(), state, pod, nodes), strict=True):
        scores.replace(row, of_plugin)
    if far_scores:
        run.best = best_of(decision.feasible, scores.totals)
    return True


def _scores_anew(
    profile: Profile,
    plugins: RunPlugins,
    near: NearAnswers,
    pod: Pod,
    nodes: NodeView,
    feasible: NDArray[np.intp],
    state: CycleState,
) -> Scores | None:
    """Return the scores of other nodes than before, which are at the `feasible` positions; None if plugins skip their
    Score, or do not, unlike before. Raises CycleError.
    """
    on_all = [plugin for plugin in profile.pre_score if plugin not in plugins.node_pre_scores]
    if not skip_as_before(on_all, state, pod, nodes):
        return None
    scoring, weights = plugins.scoring, plugins.weights
    asked = dict(sorted({**plugins.fixed_scores, **plugins.far_scores}.items()))
    by_plugin = np.empty((len(scoring), len(feasible)), np.int64)
    for row, known in zip(plugins.node_scores, near.scores, strict=True):
        known.take(feasible, out=by_plugin[row], mode="clip")  # no position is out of range, so nothing is clipped
    by_plugin[[*asked]] = scores_of(asked.values(), state, pod, nodes)
    scores = weighed(scoring, weights, by_plugin)
    near.totals[feasible] = scores.totals
    return scores


def _change(run: _Run, taken: _Taken) -> None:
    """Give the node that was taken other scores from the plugins that reach no further, and find the best nodes again.

    Where plugins reach further, they are found once those have been asked.
    """
    decision, (plugins, position, scores) = run.decision, taken
    feasible, totals = decision.feasible, decision.totals
    assert decision.scores is not None
    assert totals is not None
    index = position if len(feasible) == len(decision.verdicts.passing) else int(feasible.searchsorted(position))
    before = int(totals[index])
    decision.scores.change(index, [*plugins.node_scores], scores)
    now = int(totals[index])
    if plugins.far_scores:
        return
    if now < before and len(run.best) > 1:  # it was among the best
        run.best = run.best[run.best != position]
    elif now != before:
        run.best = best_of(feasible, totals)

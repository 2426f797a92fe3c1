"""Runs the plugins of a profile, one extension point at a time.

Statuses, their merging and their texts follow kube-scheduler (framework/runtime/framework.go, schedule_one.go).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.answer_checks import (
    wrong_names,
    wrong_needs,
    wrong_post_filter,
    wrong_rejections,
    wrong_scores,
    wrong_status,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import (
    CycleError,
    call,
    call_to_its_end,
    guarded,
    require_answer,
    require_time,
    running,
)
from extender_service.framework.interface import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    Filter,
    PostFilter,
    PostFilterResult,
    PreEnqueue,
    PreScore,
    Score,
)
from extender_service.framework.profile import Profile
from extender_service.framework.recording import extension_point
from extender_service.framework.room import Room
from extender_service.framework.status import Code, Rejections, Status, unresolvable, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod


class PreFilterOutcome:
    """The outcome of PreFilter: a rejection of the pod on all nodes, or the names of the only nodes to look at (None:
    all)."""

    def __init__(self, rejection: Status | None, node_names: set[str] | None, restricting: list[str]) -> None:
        self.rejection = rejection
        self.node_names = node_names
        # The plugins that named nodes.
        self.restricting = restricting

    @property
    def elsewhere(self) -> Status:
        """The status of the nodes that PreFilter left out."""
        return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.restricting))}]")


# The method `max` calls a function in Python first.
_highest = np.maximum.reduce
# From so many nodes on, totals are added up plugin by plugin.
_MANY_NODES = 2_000

_EVERYWHERE = PreFilterOutcome(None, None, [])


class Again(NamedTuple):
    """How Filter runs on nodes with other pods: `passed` are the plugins that are known to pass all of these nodes, and
    `evaluations` counts the nodes that each plugin judges, or would."""

    evaluations: Counter[str]
    passed: frozenset[str]


# Forgets the verdicts on nodes beyond percentageOfNodesToScore.
SampleNodes = Callable[[Profile, Verdicts, PreFilterOutcome], None]


class Scores:
    """Scores of the nodes of a view: an array with a row per plugin, and the weight of each plugin.

    `totals` are the sums of the weighted scores, one entry per node.
    """

    def __init__(self, plugins: Sequence[Score], weights: Sequence[int], scores: NDArray[np.int64]) -> None:
        self._plugins = plugins
        self._weights = np.array(weights, np.int64)
        self._scores = scores
        self.totals: NDArray[np.int64]
        if scores.shape[1] < _MANY_NODES or not plugins:
            self.totals = self._weights.dot(scores)
        else:  # of integers, in half the time that a product of matrices takes
            self.totals = scores[0] * weights[0]
            for of_plugin, weight in zip(scores[1:], weights[1:], strict=True):
                self.totals += of_plugin if weight == 1 else of_plugin * weight

    def change(self, node: int, rows: list[int], scores: NDArray[np.int64]) -> None:
        """Replace the scores that the plugins in some rows give one node."""
        of_node = self._scores[:, node]
        of_node[rows] = scores
        self.totals[node] = self._weights.dot(of_node)

    def replace(self, row: int, scores: NDArray[np.int64]) -> None:
        """Replace the scores that the plugin in a row gives all nodes. Raises CycleError if any is out of range."""
        _require_range(self._plugins[row : row + 1], scores[None])
        more = scores - self._scores[row]
        more *= self._weights[row]
        self.totals += more
        self._scores[row] = scores

    @property
    def weighted(self) -> dict[str, NDArray[np.int64]]:
        """What each plugin contributes, its score times its weight: arrays with one entry per node."""
        names = [plugin.name for plugin in self._plugins]
        return dict(zip(names, self._weights[:, None] * self._scores, strict=True))


def _pre_enqueue_code(status: Status | None) -> Code:
    return Code.SUCCESS if status is None else status.code


@extension_point("PreEnqueue", _pre_enqueue_code)
def run_pre_enqueue(profile: Profile, pod: Pod, first: str = "") -> Status | None:
    """Run PreEnqueue: return why the pod may not be queued, from the first plugin that refuses it or fails, or None.

    The plugin that is named `first`, if any, is asked before the others.
    """
    recorder, clock = profile.sampled_recorder(), profile.clock
    plugins = sorted(profile.pre_enqueue, key=lambda plugin: plugin.name != first) if first else profile.pre_enqueue
    for plugin in plugins:
        started = 0.0 if recorder is None else clock()
        status = _asked_to_enqueue(plugin, pod)
        if recorder is not None:
            recorder.record_plugin(plugin.name, "PreEnqueue", _pre_enqueue_code(status).label, clock() - started)
        if status is not None:
            return status.given_by(plugin.name)
    return None


def _asked_to_enqueue(plugin: PreEnqueue, pod: Pod) -> Status | None:
    try:
        status = guarded(plugin, "PreEnqueue", plugin.pre_enqueue, pod)
        if status is not None:
            require_answer(plugin, "PreEnqueue", wrong_status(status))
    except CycleError as failure:
        return Status(Code.ERROR, (str(failure),))
    return status


def _pre_filter_code(found: PreFilterOutcome) -> Code:
    return Code.SUCCESS if found.rejection is None else found.rejection.code


@extension_point("PreFilter", _pre_filter_code)
def run_pre_filter(profile: Profile, state: CycleState, pod: Pod, *, asks_all: bool = False) -> PreFilterOutcome:
    """Run PreFilter; a plugin that skips has its Filter skipped (RunPreFilterPlugins).

    With `asks_all`, plugins are asked also after one has ruled out all nodes. The last rejection is then returned, and
    that the names have nothing in common is none.
    """
    names: set[str] | None = None
    restricting: list[str] = []
    rejection: Status | None = None
    for plugin in profile.pre_filter:
        answer = call(state, plugin, "PreFilter", plugin.pre_filter, state, pod)
        if isinstance(answer, Status):
            if answer.code == Code.SKIP:
                state.skipped_filters.add(plugin.name)
                continue
            if not answer.is_rejection:
                require_answer(plugin, "PreFilter", wrong_status(answer))
                raise CycleError(f"{running(plugin, 'PreFilter')}: {answer.message}")
            rejection = answer.given_by(plugin.name)
            if answer.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE and not asks_all:
                return PreFilterOutcome(rejection, None, restricting)
        elif answer is not None:
            require_answer(plugin, "PreFilter", wrong_names(answer))
            restricting.append(plugin.name)
            names = set(answer) if names is None else names & set(answer)
            if not names and not asks_all:
                return PreFilterOutcome(_nothing_in_common(restricting), names, restricting)
    return PreFilterOutcome(rejection, names, restricting)


@extension_point("Filter")
def run_filter(
    profile: Profile,
    state: CycleState,
    pod: Pod,
    nodes: NodeView,
    asked: NDArray[np.bool_],
    found: PreFilterOutcome,
    nominated: Nominated = (),
    sample_nodes: SampleNodes | None = None,
) -> Verdicts:
    """Run Filter on the asked nodes, each plugin once, until no node is left.

    `sample_nodes` forgets the verdicts on nodes beyond percentageOfNodesToScore. Raises CycleError if a plugin fails on
    a node that is left, as opposed to rejecting it.
    """
    verdicts = filter_nodes(profile, state, pod, nodes, asked, found, nominated)
    if sample_nodes is not None and found.rejection is None:
        sample_nodes(profile, verdicts, found)
    error = verdicts.first_error()
    if error is not None:
        raise CycleError(f'running "{error.plugin}" filter plugin: {error.message}')
    return verdicts


def filter_nodes(
    profile: Profile,
    state: CycleState,
    pod: Pod,
    nodes: NodeView,
    asked: NDArray[np.bool_],
    found: PreFilterOutcome,
    nominated: Nominated = (),
    again: Again | None = None,
) -> Verdicts:
    """Run Filter like `run_filter`, except that a plugin's failure on a node is the node's verdict.

    Nodes with nominated pods are judged with these pods, which are likely to run there. If such a node passes, it is
    judged again without them, as they may not come (RunFilterPluginsWithNominatedPods).
    """
    joining = _joining(nodes, nominated)
    verdicts = Verdicts(nodes if joining is None else nodes.changed(joining), asked)
    if found.rejection is not None:
        everywhere = np.ones(len(verdicts.remaining), np.bool_)
        verdicts.reject(found.rejection.plugin, Rejections.where(everywhere, found.rejection))
        return verdicts
    if found.node_names is not None:
        verdicts.leave_out(Rejections.where(~verdicts.remaining.is_named(found.node_names), found.elsewhere))
    _run_filters(profile, state, pod, verdicts, again)
    if joining is not None:
        joined = np.flatnonzero(verdicts.passing & joining.changes_at(len(nodes)))
        without = Verdicts(nodes.at(joined), np.ones(len(joined), np.bool_))
        _run_filters(profile, state, pod, without, again)
        verdicts.take_over(without, joined)
        # The verdicts' view shows the nodes without nominated pods.
        verdicts.view = nodes
    return verdicts


def _joining(nodes: NodeView, nominated: Nominated) -> RowChanges | None:
    """Return the nominated pods as changes of the nodes that they are nominated for."""
    if not nominated:
        return None
    slots, positions = nominated.slots, nodes.positions_of_rows(nominated.rows)
    if nominated.names:
        positions = positions.copy()
        positions[nominated.rows < 0] = nodes.positions_of(nominated.names)
    here = (positions >= 0).nonzero()[0]
    if not len(here):
        return None
    return RowChanges(positions[here], slots[here], np.ones(len(here), np.int64))


def _run_filters(profile: Profile, state: CycleState, pod: Pod, verdicts: Verdicts, again: Again | None = None) -> None:
    for plugin in profile.filter:
        if not verdicts.left:
            break
        if plugin.name in state.skipped_filters:
            continue
        if again is not None:
            again.evaluations[plugin.name] += verdicts.left
            if plugin.name in again.passed:
                continue
        # Not by `rejections_of`: one more call for each plugin is a hundredth of a decision.
        nodes = verdicts.remaining
        rejections = call(state, plugin, "Filter", plugin.filter, state, pod, nodes)
        if rejections is not None:
            require_answer(plugin, "Filter", wrong_rejections(rejections, len(nodes)))
            verdicts.reject(plugin.name, rejections)


def rejections_of(plugin: Filter, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
    """Run Filter of one plugin. Raises CycleError."""
    rejections = call(state, plugin, "Filter", plugin.filter, state, pod, nodes)
    if rejections is not None:
        require_answer(plugin, "Filter", wrong_rejections(rejections, len(nodes)))
    return rejections


class FilteringAgain:
    """Runs Filter on nodes with other pods, also on those that PreFilter left out.

    `state.evaluated_again` counts the nodes that each plugin judged so, as kube-scheduler does, which calls each plugin
    for each node. The methods raise CycleError.
    """

    def __init__(self, profile: Profile, state: CycleState, pod: Pod, nominated: Nominated) -> None:
        self._profile = profile
        self._state = state
        self._pod = pod
        self._nominated = nominated
        if state.evaluated_again is None:
            state.evaluated_again = Counter()
        self._evaluations = state.evaluated_again

    def __call__(self, nodes: NodeView, /) -> Verdicts:
        """Return the verdicts on nodes."""
        return self._judged(nodes, Again(self._evaluations, frozenset()))

    def on_passing(self, nodes: NodeView) -> Verdicts:
        """Return the verdicts on nodes that passed with other pods, by the plugins that depend on pods."""
        return self._judged(nodes, Again(self._evaluations, self._profile.filter_regardless_of_pods))

    def room_on(self, nodes: NodeView) -> Room | None:
        """Return the room on nodes that pass, if Filter depends on nothing else of the pods that there are."""
        profile, state = self._profile, self._state
        known = profile.filter_regardless_of_pods | state.skipped_filters
        dependent = [plugin for plugin in profile.filter if plugin.name not in known]
        if len(dependent) != 1 or dependent[0].name not in profile.filter_by_room:
            return None
        [plugin] = dependent
        needs = guarded(plugin, "Filter", plugin.needs, state, nodes)
        if needs is None:
            return None
        require_answer(plugin, "Filter", wrong_needs(needs))
        doing = running(plugin, "Filter")
        joining = _joining(nodes, self._nominated)
        return Room(plugin.name, nodes, needs, joining, lambda: require_time(state.clock, state.deadline, doing))

    def count(self, room: Room) -> None:
        """Count the evaluations that were made in `room` instead of by plugins."""
        evaluations = room.looked_at
        for plugin in self._profile.filter:
            if plugin.name not in self._state.skipped_filters:
                self._evaluations[plugin.name] += evaluations
            if plugin.name == room.plugin:
                evaluations = room.passed

    def _judged(self, nodes: NodeView, again: Again) -> Verdicts:
        everywhere = np.ones(len(nodes), np.bool_)
        profile, state, pod = self._profile, self._state, self._pod
        return filter_nodes(profile, state, pod, nodes, everywhere, _EVERYWHERE, self._nominated, again)


def judge_nominated_node(
    profile: Profile, state: CycleState, pod: Pod, verdicts: Verdicts, nominated: Nominated
) -> None:
    """If PreFilter has left out the pod's nominated node, give that node Filter's verdict; none if Filter fails there.

    kube-scheduler runs Filter on this node before it looks at PreFilter's nodes (evaluateNominatedNode), and preemption
    depends on the verdict. Raises CycleError.
    """
    position = verdicts.view.position_of(pod.status.nominated_node_name)
    if position < 0 or not verdicts.bring_back(position):
        return
    there = np.array([position])
    judged = FilteringAgain(profile, state, pod, nominated)(verdicts.view.at(there))
    if not judged.passing.any() and judged.first_error() is None:
        verdicts.take_over(judged, there)


@extension_point("PostFilter", lambda result: result.status.code)
def run_post_filter(
    profile: Profile, state: CycleState, pod: Pod, verdicts: Verdicts, nominated: Nominated = ()
) -> PostFilterResult:
    """Run PostFilter until a plugin makes room or rules that out (RunPostFilterPlugins).

    `verdicts` are on all nodes of the cluster, none of which passes. The pod's nominated node is judged again if
    PreFilter has left it out. An answer counts although the deadline is over, but no further plugin is called then.

    Raises CycleError, OutOfTimeError.
    """
    judge_nominated_node(profile, state, pod, verdicts, nominated)
    reasons: list[str] = []
    clears_nomination = False
    last: PostFilter | None = None
    for plugin in profile.post_filter:
        if last is not None:
            require_time(state.clock, state.deadline, running(last, "PostFilter"))
        last = plugin
        again = FilteringAgain(profile, state, pod, nominated)
        result = call_to_its_end(state, plugin, "PostFilter", plugin.post_filter, state, pod, verdicts, again)
        require_answer(plugin, "PostFilter", wrong_post_filter(result))
        if result.status.code == Code.SUCCESS:
            return result
        if result.status.code != Code.UNSCHEDULABLE:
            is_final = result.status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            clears = is_final and result.clears_nomination
            return PostFilterResult(result.status.given_by(plugin.name), clears_nomination=clears)
        clears_nomination |= result.clears_nomination
        reasons += result.status.reasons
    rejecting = profile.post_filter[0].name if profile.post_filter else ""
    return PostFilterResult(unschedulable(*reasons).given_by(rejecting), clears_nomination=clears_nomination)


@extension_point("PreScore")
def run_pre_score(profile: Profile, state: CycleState, pod: Pod, nodes: NodeView) -> None:
    """Run PreScore on feasible nodes; a plugin that skips has its Score skipped (RunPreScorePlugins)."""
    run_pre_scores(profile.pre_score, state, pod, nodes, state.skipped_scores)


def run_pre_scores(
    plugins: Iterable[PreScore], state: CycleState, pod: Pod, nodes: NodeView, skipping: set[str]
) -> None:
    """Run PreScore of some plugins, and add the names of those that skip their Score to a set. Raises CycleError."""
    for plugin in plugins:
        status = call(state, plugin, "PreScore", plugin.pre_score, state, pod, nodes)
        if status is not None:
            require_answer(plugin, "PreScore", wrong_status(status))
            if status.code != Code.SKIP:
                raise CycleError(f"{running(plugin, 'PreScore')}: {status.message}")
            skipping.add(plugin.name)


@extension_point("Score")
def run_score(profile: Profile, state: CycleState, pod: Pod, nodes: NodeView) -> Scores:
    """Run Score and NormalizeScore on feasible nodes, and weigh the scores (RunScorePlugins)."""
    skipped = state.skipped_scores
    scoring = [of_plugin for of_plugin in profile.score if of_plugin[0].name not in skipped]
    plugins, weights = zip(*scoring, strict=True) if scoring else ((), ())
    return weighed(plugins, weights, scores_of(plugins, state, pod, nodes))


def weighed(plugins: Sequence[Score], weights: Sequence[int], scores: NDArray[np.int64]) -> Scores:
    """Weigh what plugins score, a row for each. Raises CycleError if a score is out of range."""
    _require_range(plugins, scores)
    return Scores(plugins, weights, scores)


def scores_of(plugins: Iterable[Score], state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
    """Run Score and NormalizeScore of some plugins; returns a row for each. Raises CycleError."""
    size = len(nodes)
    scores = []
    for plugin in plugins:
        normalized = raw = call(state, plugin, "Score", plugin.score, state, pod, nodes)
        if (wrong := wrong_scores(raw, size)) is not None:
            require_answer(plugin, "Score", wrong)
        if type(plugin).normalize is not Score.normalize:
            normalized = call(state, plugin, "ScoreExtensionNormalize", plugin.normalize, state, pod, nodes, raw)
            if (wrong := wrong_scores(normalized, size)) is not None:
                require_answer(plugin, "ScoreExtensionNormalize", wrong)
        scores.append(normalized)
    # In one array, as the overhead of a NumPy call exceeds the time for a few hundred nodes.
    return np.array(scores, np.int64).reshape(len(scores), size)


def _require_range(plugins: Sequence[Score], scores: NDArray[np.int64]) -> None:
    # Read as unsigned numbers, negative scores are above the maximum.
    if _highest(scores.view(np.uint64), axis=None, initial=0) <= MAX_NODE_SCORE:
        return
    wrong = (scores > MAX_NODE_SCORE) | (scores < MIN_NODE_SCORE)
    node = int(wrong.any(axis=0).argmax())
    plugin = int(wrong[:, node].argmax())
    raise CycleError(
        f'applying score defaultWeights on Score plugins: plugin "{plugins[plugin].name}" returns an invalid score '
        f"{scores[plugin, node]}, "
        f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
    )


def _nothing_in_common(restricting: Collection[str]) -> Status:
    if len(restricting) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {next(iter(restricting))}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(restricting))}] simultaneously")

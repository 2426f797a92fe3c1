"""Runs the plugins of a profile, one extension point at a time.

Statuses, their merging and their texts follow kube-scheduler (framework/runtime/framework.go, schedule_one.go).
"""

from collections.abc import Callable, Collection, Iterable

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.answer_checks import (
    wrong_candidates,
    wrong_names,
    wrong_post_filter,
    wrong_scores,
    wrong_status,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.filtering import PreFilterOutcome, filter_nodes
from extender_service.framework.guard import (
    CycleError,
    call,
    call_to_its_end,
    guarded,
    require_answer,
    require_time,
    running,
)
from extender_service.framework.interface import Candidate, PostFilter, PostFilterResult, PreEnqueue, PreScore, Score
from extender_service.framework.preemption.candidates import Candidates
from extender_service.framework.preemption.filtering_again import FilteringAgain, judge_nominated_node
from extender_service.framework.profile import Profile
from extender_service.framework.recording import extension_point
from extender_service.framework.scores import Scores, weighed
from extender_service.framework.status import Code, Status, unresolvable, unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod

# Forgets the verdicts on nodes beyond percentageOfNodesToScore.
SampleNodes = Callable[[Profile, Verdicts, PreFilterOutcome], None]


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
    """Run Filter on the asked nodes, each plugin once, until no node is left. PreFilter must not have rejected the pod.

    `sample_nodes` forgets the verdicts on nodes beyond percentageOfNodesToScore. Raises CycleError if a plugin fails on
    a node that is left, as opposed to rejecting it.
    """
    verdicts = filter_nodes(profile, state, pod, nodes, asked, found, nominated)
    if sample_nodes is not None:
        sample_nodes(profile, verdicts, found)
    error = verdicts.first_error()
    if error is not None:
        raise CycleError(f'running "{error.plugin}" filter plugin: {error.message}')
    return verdicts


@extension_point("PostFilter", lambda result: result.status.code)
def run_post_filter(
    profile: Profile, state: CycleState, pod: Pod, verdicts: Verdicts, nominated: Nominated = ()
) -> PostFilterResult:
    """Run PostFilter until a plugin makes room or rules that out (RunPostFilterPlugins).

    `verdicts` are on all nodes of the cluster, none of which passes. The pod's nominated node is judged again if
    PreFilter has left it out. An answer counts although the deadline is over, but no further plugin is called then.
    Its status names the plugin.

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
        require_answer(plugin, "PostFilter", wrong_post_filter(result, verdicts.view))
        if result.status.code == Code.SUCCESS:
            candidates = _checked_candidates(plugin, result.candidates, verdicts.view)
            return structs.replace(result, status=result.status.given_by(plugin.name), candidates=candidates)
        if result.status.code != Code.UNSCHEDULABLE:
            is_final = result.status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            clears = is_final and result.clears_nomination
            return PostFilterResult(result.status.given_by(plugin.name), clears_nomination=clears)
        clears_nomination |= result.clears_nomination
        reasons += result.status.reasons
    rejecting = profile.post_filter[0].name if profile.post_filter else ""
    return PostFilterResult(unschedulable(*reasons).given_by(rejecting), clears_nomination=clears_nomination)


def _checked_candidates(plugin: PostFilter, candidates: Iterable[Candidate], nodes: NodeView) -> Iterable[Candidate]:
    """Return the candidates of a PostFilter plugin, which may have made them one by one. Raises CycleError."""
    if isinstance(candidates, Candidates):
        return candidates  # a dry run found them, and there may be thousands
    known = guarded(plugin, "PostFilter", tuple, candidates)
    require_answer(plugin, "PostFilter", wrong_candidates(known, nodes))
    return known


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


def _nothing_in_common(restricting: Collection[str]) -> Status:
    if len(restricting) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {next(iter(restricting))}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(restricting))}] simultaneously")

"""The decision about the next pod of a run: the one before it, with what may be different for this pod.

Per-node plugins have said what the node that was taken is worth now. Cluster-wide plugins, such as topology spread, are
asked again about all nodes. If they filter, other nodes may be feasible than for the pod before: then the scores of the
others are put together from what is known of each node (per_node_answers.py), and normalized again.
"""

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.filtering import rejections_of
from extender_service.framework.guard import call
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import scores_of
from extender_service.framework.scores import Scores, weighed
from extender_service.framework.status import Code, Rejections, Status
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod
from extender_service.scheduling.decision import Decision, best_of
from extender_service.scheduling.question import Question
from extender_service.scheduling.reuse.per_node_answers import PerNodeAnswers, skip_as_before
from extender_service.scheduling.reuse.plugins_by_reach import PluginsByReach
from extender_service.scheduling.reuse.run import Run, TakenNode


def next_decision(run: Run, taken: TakenNode, question: Question) -> Decision | None:
    """Return the decision about the next pod of a run; None if only one from the beginning can be made.

    Raises CycleError.
    """
    plugins = taken.plugins
    pod, view, before = question.pod, question.nodes.view, run.decision
    state = run.state.for_pod_alike(pod, question.deadline)
    rejections = _cluster_wide_rejections(plugins, pod, view, state)
    if rejections is None:
        return None
    is_as_before, run.cluster_wide_rejections = run.is_rejected_as_before(rejections), rejections
    if is_as_before:  # then Filter says the same
        run.change_scores(taken)
        return before.repeated(question, state, run.best) if _score_again(run, plugins, pod, view, state) else None
    answers = _per_node_answers(run, plugins, question)
    if answers is None:
        return None
    in_order = _in_order(before.profile, rejections | answers.rejections)
    verdicts = Verdicts.of_all(view, question.nodes.in_question, in_order)
    feasible, scores = verdicts.passing.nonzero()[0], before.scores
    if len(feasible) < 2:
        return None
    if np.array_equal(feasible, before.feasible):
        run.change_scores(taken)
        if not _score_again(run, plugins, pod, view, state):
            return None
    else:
        scores = _scores_of_others(before.profile, plugins, answers, pod, view.at(feasible), feasible, state)
        if scores is None:
            return None
        run.best = best_of(feasible, scores.totals)
    run.decision = before.followed(question, state, verdicts, feasible, scores, run.best)
    return run.decision


def _per_node_answers(run: Run, plugins: PluginsByReach, question: Question) -> PerNodeAnswers | None:
    """Return what per-node plugins say about all nodes now; None where that is not known. Raises CycleError."""
    if run.per_node_answers is None:
        state = run.state.for_pod_alike(question.pod, question.deadline)
        run.per_node_answers = PerNodeAnswers.of(plugins, state, question)
        if run.per_node_answers is None:
            run.can_repeat = False
        else:
            run.state = state
    return run.per_node_answers


def _cluster_wide_rejections(
    plugins: PluginsByReach, pod: Pod, view: NodeView, state: CycleState
) -> dict[str, Rejections] | None:
    """Ask the cluster-wide plugins, by their name where they reject any node; None where only a decision from the
    beginning can say. Raises CycleError.
    """
    if not _are_prepared(plugins, pod, state):
        return None
    rejections: dict[str, Rejections] = {}
    for plugin in plugins.cluster_wide_filters:
        of_plugin = rejections_of(plugin, state, pod, view)
        if of_plugin is not None and len(of_plugin.rejected):
            if of_plugin.may_be_errors:
                return None
            rejections[plugin.name] = of_plugin
    return rejections


def _are_prepared(plugins: PluginsByReach, pod: Pod, state: CycleState) -> bool:
    """Run PreFilter of cluster-wide plugins; return whether they skip Filter, or run it on all nodes, as before.

    Raises CycleError.
    """
    for plugin in plugins.cluster_wide_pre_filters:
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


def _score_again(run: Run, plugins: PluginsByReach, pod: Pod, view: NodeView, state: CycleState) -> bool:
    """Ask the plugins whose scores may change on any node; return whether they have scores for the same nodes again.

    Raises CycleError.
    """
    scoring = plugins.cluster_wide_scores
    if not plugins.cluster_wide_pre_scores and not scoring:
        return True
    decision, scores = run.decision, run.decision.scores
    nodes = view if len(decision.feasible) == len(view) else view.at(decision.feasible)
    if not skip_as_before(plugins.cluster_wide_pre_scores, state, pod, nodes):
        return False
    assert scores is not None
    for row, of_plugin in zip(scoring, scores_of(scoring.values(), state, pod, nodes), strict=True):
        scores.replace(row, of_plugin)
    if scoring:
        run.best = best_of(decision.feasible, scores.totals)
    return True


def _scores_of_others(
    profile: Profile,
    plugins: PluginsByReach,
    answers: PerNodeAnswers,
    pod: Pod,
    nodes: NodeView,
    feasible: NDArray[np.intp],
    state: CycleState,
) -> Scores | None:
    """Return the scores of other nodes than before, which are at the `feasible` positions; None if plugins skip their
    Score, or do not, unlike before. Raises CycleError.
    """
    on_all = [plugin for plugin in profile.pre_score if plugin not in plugins.per_node_pre_scores]
    if not skip_as_before(on_all, state, pod, nodes):
        return None
    scoring, weights = plugins.scoring, plugins.weights
    asked = dict(sorted({**plugins.fixed_scores, **plugins.cluster_wide_scores}.items()))
    by_plugin = np.empty((len(scoring), len(feasible)), np.int64)
    for row, known in zip(plugins.per_node_scores, answers.scores, strict=True):
        known.take(feasible, out=by_plugin[row], mode="clip")  # no position is out of range, so nothing is clipped
    by_plugin[[*asked]] = scores_of(asked.values(), state, pod, nodes)
    scores = weighed(scoring, weights, by_plugin)
    answers.totals[feasible] = scores.totals
    return scores

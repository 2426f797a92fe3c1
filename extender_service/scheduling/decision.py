"""One decision about a pod: PreFilter and Filter on the asked nodes, PreScore and Score on those that pass."""

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.cluster.structures.extremes import highest_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.filtering import UNRESTRICTED, PreFilterOutcome, filter_nodes
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import run_filter, run_pre_filter, run_pre_score, run_score
from extender_service.framework.scores import Scores
from extender_service.framework.status import Rejections, Status
from extender_service.framework.verdicts import Verdicts
from extender_service.scheduling.question import Question


class Decision:
    """What `profile` decided about the pod of `question`.

    - `state`: what its plugins stored for later extension points
    - `pre_filter`: what PreFilter said
    - `verdicts`: one for each node of the view
    - `feasible`: the positions in the view of the nodes that pass
    - `scores`: of the feasible nodes, in their order; None where no score was needed. The decisions of a run of pods
      alike may share one object, which changes in place with each later pod
    - `totals`: the sums of the weighted `scores`, in the same order, which change with them
    - `chosen`: the position that `choose` returned, None before
    - `is_ahead`: the decision was made before a caller asked for it
    - `repeats`: the earlier decision whose verdicts and `scores` this one shares, None for other decisions
    - `is_final`: the pod is refused for a field of its own: no plugin ran, and no change of the cluster can help
    """

    def __init__(
        self,
        profile: Profile,
        question: Question,
        state: CycleState,
        pre_filter: PreFilterOutcome,
        verdicts: Verdicts,
        feasible: NDArray[np.intp],
        scores: Scores | None = None,
    ) -> None:
        self.profile = profile
        self.question = question
        self.state = state
        self.pre_filter = pre_filter
        self.verdicts = verdicts
        self.feasible = feasible
        self.scores = scores
        self.totals = None if scores is None else scores.totals
        self.chosen: int | None = None
        self.is_ahead = False
        self.is_final = False
        self.repeats: Decision | None = None
        self._best: NDArray[np.intp] | None = None

    @property
    def best(self) -> NDArray[np.intp]:
        """The positions of the feasible nodes with the highest total; all feasible ones where no score was needed.

        They stay the same when the scores change for a later pod.
        """
        if self._best is None:
            self._best = self.feasible if self.totals is None else best_of(self.feasible, self.totals)
        return self._best

    def repeated(self, question: Question, state: CycleState, best: NDArray[np.intp]) -> "Decision":
        """Return the same decision about a pod alike, with the scores and the best nodes as they are now."""
        again = Decision(self.profile, question, state, self.pre_filter, self.verdicts, self.feasible, self.scores)
        again._best = best
        again.repeats = self
        return again

    def followed(
        self,
        question: Question,
        state: CycleState,
        verdicts: Verdicts,
        feasible: NDArray[np.intp],
        scores: Scores | None,
        best: NDArray[np.intp],
    ) -> "Decision":
        """Return the decision about a pod alike for which Filter rejects other nodes; `best` are the best of those that
        are feasible."""
        again = Decision(self.profile, question, state, self.pre_filter, verdicts, feasible, scores)
        again._best = best
        return again

    def choose(self) -> int:
        """Return one of the best positions, each with the same chance."""
        best = self.best
        self.chosen = int(best[self.profile.random.randrange(len(best))])
        return self.chosen


def best_of(feasible: NDArray[np.intp], totals: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return the feasible positions with the highest total, of at least one."""
    best: NDArray[np.intp] = feasible.take((totals == highest_of(totals)).nonzero()[0])
    return best


def decide(
    profile: Profile, question: Question, nominated: Nominated = (), state: CycleState | None = None
) -> Decision:
    """Decide about a pod: every asked node gets a verdict and, where there is a choice, every feasible one a score.

    A node must be feasible with and without the `nominated` pods on it. The `state`, if given, is a new one.

    Raises CycleError if kube-scheduler would end the cycle with an error, OutOfTimeError after the deadline.
    """
    pod, nodes = question.pod, question.nodes.view
    if state is None:
        state = profile.new_state(pod, question.deadline)
    # To bind the pod where it was chosen elsewhere, each plugin needs its state, whatever others say here.
    found = run_pre_filter(profile, state, pod, asks_all=question.chosen_elsewhere)
    asked = question.nodes.in_question
    if found.rejection is not None:  # Filter does not run, and so takes no time that counts
        verdicts = filter_nodes(profile, state, pod, nodes, asked, found, nominated)
    else:
        if question.is_nominated:
            found = UNRESTRICTED
        verdicts = run_filter(profile, state, pod, nodes, asked, found, nominated, question.sample_nodes)
    feasible = verdicts.passing.nonzero()[0]
    if not question.must_score or len(feasible) < 2 or not profile.score:
        return Decision(profile, question, state, found, verdicts, feasible)
    candidates = nodes if len(feasible) == len(nodes) else nodes.at(feasible)
    run_pre_score(profile, state, pod, candidates)
    scores = run_score(profile, state, pod, candidates)
    return Decision(profile, question, state, found, verdicts, feasible, scores)


def narrowed(decision: Decision, feasible: NDArray[np.intp], *, must_score: bool) -> Decision:
    """Return the decision with some of its feasible nodes only, scored again if there is a choice."""
    profile, question, state = decision.profile, decision.question, decision.state
    scores = None
    if must_score and len(feasible) > 1 and profile.score:
        candidates = question.nodes.view.at(feasible)
        run_pre_score(profile, state, question.pod, candidates)
        scores = run_score(profile, state, question.pod, candidates)
    return Decision(profile, question, state, decision.pre_filter, decision.verdicts, feasible, scores)


def refuse(profile: Profile, question: Question, status: Status) -> Decision:
    """Return a decision that rejects all asked nodes with a status, without running plugins."""
    verdicts = Verdicts(question.nodes.view, question.nodes.in_question)
    verdicts.reject("", Rejections.where(np.ones(len(verdicts.remaining), np.bool_), status))
    state = profile.new_state(question.pod, question.deadline)
    decision = Decision(profile, question, state, UNRESTRICTED, verdicts, np.flatnonzero(verdicts.passing))
    decision.is_final = True
    return decision

"""Runs of pods alike: a decision about the next one depends on the decision before it, and on the node taken since.

kube-scheduler's cycle begins at the first plugin for each pod. But if the pod before had the same signature and was
placed, and nothing else has changed, then most plugins would answer differently only about the node that it was placed
on, if at all (Plugin.reach). These per-node plugins are asked about that node, mostly ahead (states_ahead.py). The
others are cluster-wide: they are asked again, each time about all nodes (next_decision.py).

Only `schedule` and simulations have runs: these are for questions about all nodes of the cluster
(`AskedNodes.are_all`), and the callers of `serve` name the nodes that they ask about. `serve` decides ahead (ahead.py).

A run ends when a pod with another signature is placed, when the cluster changes in another way, and when a node has no
more room. While there is one, a decision is one of four cases:

1. The pod is the next of the run: the decision before is repeated, with what is different now (next_decision.py).
2. It is, but its plugins are timed, as are those of a sample of decisions: the decision is made from the beginning, and
   the run continues from it.
3. It is not, and fits nowhere: nothing follows from its decision, so the run goes on after it.
4. Everything else: the decision is made from the beginning, the run ends, and another one may begin.
"""

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.cluster.state.placements import Placement
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.framework.profile import Profile
from extender_service.framework.recording import Recorder
from extender_service.kube.types.core import Pod
from extender_service.scheduling.decision import Decision, decide
from extender_service.scheduling.question import Question
from extender_service.scheduling.reuse.next_decision import next_decision
from extender_service.scheduling.reuse.pod_signature import PodSignature, may_share_signature, pod_signature
from extender_service.scheduling.reuse.run import Run, TakenNode
from extender_service.scheduling.reuse.states_ahead import LookingAhead

# For how many pods in a row it is taken as known that a decision about their signature cannot be repeated.
_NOT_REPEATED = 64
# After so many pods in a row that were unlike the one before, a run begins with the second of two that are alike.
_MANY_UNLIKE = 16


class Runs:
    """Follows the `current` run, if there is one.

    `repeated` is the number of decisions that were not made from the beginning.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.current: Run | None = None
        self._looking_ahead = LookingAhead(cluster)
        # A signature for which all plugins are asked about each pod, and for how many more pods that is taken as known.
        self._not_repeated: tuple[Profile, PodSignature] | None = None
        self._not_repeated_left = 0
        # The last pod with which a run may have begun, and how many in a row were unlike the one before.
        self._before: Pod | None = None
        self._unlike = 0
        self.repeated = 0

    def decide(self, profile: Profile, question: Question, nominated: Nominated) -> Decision:
        """Decide about a pod. Raises like `decide` of decision.py."""
        run = self.current
        recorder = profile.sampled_recorder()
        if run is None:
            decision = _from_the_beginning(profile, question, nominated, recorder)
        elif self._is_next_of(run, profile, question, nominated):
            taken = self._scores_of_taken_node(run, question)
            if recorder is None and taken is not None:
                repeated = self._repeated(run, taken, question)
                if repeated is not None:
                    run.question = question
                    self.repeated += 1
                    return repeated  # case 1
            decision = _from_the_beginning(profile, question, nominated, recorder)
            if recorder is not None and taken is not None and run.continue_from(decision):
                return decision  # case 2
            self._end()
        else:
            decision = _from_the_beginning(profile, question, nominated, recorder)
            if run.last_placed is not None and not len(decision.feasible):
                return decision  # case 3
            self._end()
        if (
            decision.totals is not None
            and not nominated
            and profile.treats_alike
            and _is_about_all(question)
            and not self._cannot_repeat(profile, question.pod)
            and self._may_begin(question.pod)
        ):
            self.current = Run(decision, self._cluster.version)
        return decision  # case 4

    def before_placing(self, pod: Pod, decision: Decision | None) -> None:
        """Note that a pod is about to be placed, after Reserve, which may have changed the cluster: the run ends if it
        has, or if that is not the pod decided about last."""
        run = self.current
        if run is None:
            return
        is_about_next = decision is not None and decision.question is run.question and decision.chosen is not None
        is_next = is_about_next and run.question.pod is pod
        if not is_next or run.last_placed is not None or run.version != self._cluster.version:
            self._end()

    def placed(self, decision: Decision | None, placement: Placement) -> None:
        """Note that a pod was placed; nothing else may have changed since `before_placing`."""
        run = self.current
        if run is None or decision is None or decision.chosen is None:
            return
        if decision.verdicts.view.name_at(decision.chosen) != placement.node_name:
            self._end()
            return
        run.last_placed = decision.chosen, placement
        run.version = self._cluster.version

    def _cannot_repeat(self, profile: Profile, pod: Pod) -> bool:
        """Return whether a decision about such a pod could not be repeated lately: then no run begins."""
        if not self._not_repeated_left:
            return False
        self._not_repeated_left -= 1
        return self._not_repeated == (profile, pod_signature(pod))

    def _may_begin(self, pod: Pod) -> bool:
        """Return whether a run may begin with a pod, by whether those before it were alike; note the pod."""
        before, self._before = self._before, pod
        self._unlike = 0 if before is not None and may_share_signature(before, pod) else self._unlike + 1
        return self._unlike < _MANY_UNLIKE

    def _is_next_of(self, run: Run, profile: Profile, question: Question, nominated: Nominated) -> bool:
        """Return whether a question is about the next pod of a run: the last one was placed, nothing else has changed
        since, and this one has its signature. Changes nothing.
        """
        if (
            nominated
            or run.last_placed is None
            or run.decision.profile is not profile
            or run.version != self._cluster.version
            or not _is_about_all(question)
            or run.signature is None
        ):
            return False
        return pod_signature(question.pod) == run.signature

    def _scores_of_taken_node(self, run: Run, question: Question) -> TakenNode | None:
        """Return what the node that the last pod took is worth to the next one; None if only a decision from the
        beginning can say.

        Call this once for each pod: the run has no `last_placed` from then on, and the states ahead are those after it.
        """
        assert run.last_placed is not None
        (position, placement), run.last_placed = run.last_placed, None
        plugins = run.plugins
        if plugins is None:
            self._note_not_repeated(run)
            return None
        try:
            scores = self._looking_ahead.next_scores(run, plugins, position, placement, question)
        except CycleError as error:
            self._give_up(error, run.decision.profile, question)
            return None
        if scores is None:
            return None
        if run.per_node_answers is not None:
            run.per_node_answers.scores[:, position] = scores
        return TakenNode(plugins, position, scores)

    def _repeated(self, run: Run, taken: TakenNode, question: Question) -> Decision | None:
        """Return the decision about the next pod of a run; None if only one from the beginning can be made."""
        try:
            decision = next_decision(run, taken, question)
        except CycleError as error:
            self._give_up(error, run.decision.profile, question)
            return None
        if not run.can_repeat:
            self._note_not_repeated(run)
        return decision

    def _give_up(self, error: CycleError, profile: Profile, question: Question) -> None:
        """Leave a question to a decision from the beginning, which meets the error, if it is one.

        Raises OutOfTimeError if no time is left for that.
        """
        self._looking_ahead.pause_longer()
        if isinstance(error, OutOfTimeError) and profile.clock() > question.deadline:
            raise error

    def _note_not_repeated(self, run: Run) -> None:
        assert run.signature is not None
        self._not_repeated, self._not_repeated_left = (run.decision.profile, run.signature), _NOT_REPEATED

    def _end(self) -> None:
        if self.current is not None:
            self.current = None
            self._looking_ahead.drop_states()


def _from_the_beginning(
    profile: Profile, question: Question, nominated: Nominated, recorder: Recorder | None
) -> Decision:
    state = CycleState(question.pod, recorder, question.deadline, profile.clock, profile.request_rules)
    return decide(profile, question, nominated, state)


def _is_about_all(question: Question) -> bool:
    """Return whether a question is about all nodes, as kube-scheduler's own is."""
    is_plain = question.must_score and question.sample_nodes is None
    return is_plain and not question.is_nominated and question.nodes.are_all

"""Runs of pods alike: a decision about the next one depends on the decision before it, and on the node taken since.

kube-scheduler's cycle begins at the first plugin for each pod. But if the pod before had the same signature and was
placed, and nothing else has changed, then most plugins would answer differently only about the node that it was placed
on, if at all (Plugin.reach). These per-node plugins are asked about that node, mostly ahead (states_ahead.py). The
others are cluster-wide: they are asked again, each time about all nodes (next_decision.py).

Only `schedule` and simulations have runs: these are for questions about all nodes of the cluster (`AllNodes.are_all`),
and the callers of `serve` name the nodes that they ask about. `serve` decides ahead (ahead.py).

A run ends when a pod with another signature is placed, when the cluster changes in another way, and when a node has no
more room. Pods with other signatures that fit nowhere do not end it.
"""

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.cluster.state.placements import Placement
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.framework.profile import Profile
from extender_service.kube.types.core import Pod
from extender_service.scheduling.asked_nodes import AllNodes
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
        if run is not None and is_sample and run.continue_from(decision):
            return decision
        if run is not None and run.taken is not None and not len(decision.feasible):
            return decision  # about a pod with another signature: nothing follows from it, so the run goes on
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
        return decision

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

    def _take(self, run: Run, profile: Profile, question: Question, nominated: Nominated) -> TakenNode | None:
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
        if run.signature is None or pod_signature(question.pod) != run.signature:
            return None
        if run.plugins is None:
            self._note_not_repeated(run)
            return None
        (position, placement), run.taken = run.taken, None
        try:
            scores = self._looking_ahead.next_scores(run, run.plugins, position, placement, question)
        except CycleError as error:
            self._give_up(error, profile, question)
            return None
        if scores is None:
            return None
        if run.per_node_answers is not None:
            run.per_node_answers.scores[:, position] = scores
        return TakenNode(run.plugins, position, scores)

    def _again(self, run: Run, taken: TakenNode, question: Question) -> Decision | None:
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


def _is_about_all(question: Question) -> bool:
    """Return whether a question is about all nodes, as kube-scheduler's own is."""
    nodes = question.nodes
    is_plain = question.must_score and question.sample_nodes is None and not question.is_nominated
    return is_plain and isinstance(nodes, AllNodes) and nodes.are_all

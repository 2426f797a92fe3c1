"""The engine: decides about pods, places them and binds them. Programs call it, and no module beneath it.

It knows no mode, but each of its two ways to reuse an earlier decision serves one program, by what that asks:

- `ahead` works only for a program that calls `prepare` after its answers, as `serve` does; so does `Cluster.catch_up`
- `runs` begin only with questions about all nodes, as `schedule` and simulations ask; `serve` is asked about nodes by
  name
"""

import math
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.cluster.state.placements import Placement
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.filtering import filter_nodes
from extender_service.framework.guard import CycleError
from extender_service.framework.handle import Pods
from extender_service.framework.interface import Candidate, PostFilterResult
from extender_service.framework.preemption.candidates import NO_CANDIDATES, Candidates
from extender_service.framework.preemption.dry_run import dry_run, given_candidate
from extender_service.framework.preemption.filtering_again import FilteringAgain
from extender_service.framework.profiles import Profiles
from extender_service.framework.runtime import run_post_filter, run_pre_filter, run_pre_score, run_score
from extender_service.framework.scores import Scores
from extender_service.framework.status import Code
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.asked_nodes import NodeFinder
from extender_service.scheduling.binder import Binder
from extender_service.scheduling.binding_cycle import BindElsewhere, BindingCycle
from extender_service.scheduling.confirmations import CONFIRM_SECONDS
from extender_service.scheduling.decision import Decision, decide, narrowed, refuse
from extender_service.scheduling.question import Question
from extender_service.scheduling.reuse.ahead import DecidingAhead
from extender_service.scheduling.reuse.runs import Runs
from extender_service.scheduling.unsupported import UnsupportedFields


class DryRunOutcome(NamedTuple):
    """The outcome of a dry run: which nodes of the view pass without more victims, and where victims help."""

    passing: NDArray[np.bool_]
    candidates: Candidates


class Engine:
    """The decision making of kube-scheduler over a cluster.

    `may_bind` raises CycleError if this process may not bind any more. `nominated_for` returns the nominated pods that
    count when a pod is judged; without it, those that the watch shows do. `bind_elsewhere` is asked to bind pods before
    plugins are. Call the engine from one thread: nothing else may change the cluster between a decision and the
    placement after it.
    """

    def __init__(
        self,
        cluster: Cluster,
        profiles: Profiles,
        pods: Pods,
        *,
        may_bind: Callable[[], None] = lambda: None,
        confirm_seconds: float = CONFIRM_SECONDS,
        nominated_for: Callable[[Pod], Nominated] | None = None,
        bind_elsewhere: BindElsewhere | None = None,
    ) -> None:
        self.cluster = cluster
        self.profiles = profiles
        self.nodes = NodeFinder(cluster)
        self.binder = Binder(cluster, pods, may_bind=may_bind, confirm_seconds=confirm_seconds)
        self.ahead = DecidingAhead(cluster)
        self.runs = Runs(cluster)
        self.unsupported = UnsupportedFields(cluster.rules)
        self._bind_elsewhere = bind_elsewhere
        self._last_placed: Decision | None = None
        self._nominated_for = nominated_for or partial(cluster.nominated_for, scheduler_names=profiles.names)

    def decide(self, question: Question) -> Decision:
        """Decide about a pod, without changing the cluster. If the pod is placed already, it counts like any other pod.

        Raises CycleError or QuantityError if no decision is possible, OutOfTimeError after the deadline.
        """
        profile = self.profiles.of(question.pod)
        if question.chosen_elsewhere:
            return decide(profile, question)
        refusal = self.unsupported.refusal(question)
        if refusal is not None:
            return refuse(profile, question, refusal)
        nominated = self._nominated(question)
        decision = None if question.sample_nodes is not None else self.ahead.take(profile, question, nominated)
        return self.runs.decide(profile, question, nominated) if decision is None else decision

    def decide_without_reuse(self, question: Question) -> Decision:
        """Decide about a pod that no caller asks about now: what is kept for the next caller stays.

        Raises like `decide`.
        """
        return decide(self.profiles.of(question.pod), question, self._nominated(question))

    def score(self, question: Question, state: CycleState | None = None) -> Scores:
        """Score the asked nodes without Filter, as they are known to be feasible. Entries are in the view's order.

        `state` is that of the decision that found them feasible, if there was one; then PreFilter has run.
        Raises CycleError or QuantityError, OutOfTimeError after the deadline.
        """
        pod, asked = question.pod, question.nodes
        profile = self.profiles.of(pod)
        if state is None:
            state = profile.new_state(pod, question.deadline)
            run_pre_filter(profile, state, pod)
        positions = asked.in_question.nonzero()[0]
        nodes = asked.view if len(positions) == len(asked.view) else asked.view.at(positions)
        if not len(nodes):
            return Scores([], [], np.empty((0, 0), np.int64))
        run_pre_score(profile, state, pod, nodes)
        return run_score(profile, state, pod, nodes)

    def narrowed(self, decision: Decision, feasible: NDArray[np.intp], *, must_score: bool) -> Decision:
        """Return a decision with some of its feasible nodes only, by position. The cluster must not have changed since.

        Raises CycleError.
        """
        return narrowed(decision, feasible, must_score=must_score)

    def post_filter(self, question: Question, decision: Decision) -> PostFilterResult:
        """Run PostFilter for a pod that fits on no node of the cluster. Raises CycleError.

        The decision must not be final: PostFilter reads what PreFilter has stored.
        """
        nominated = self._nominated(question)
        return run_post_filter(decision.profile, decision.state, question.pod, decision.verdicts, nominated)

    def dry_run(self, question: Question, agreed: RowChanges | None = None) -> DryRunOutcome:
        """Find the asked nodes where deleting pods of lower priority makes room, as DefaultPreemption does.

        The `agreed` victims are gone in any case: nodes are first judged without them.
        Raises CycleError, OutOfTimeError after the deadline.
        """
        pod, nodes = question.pod, question.nodes.view
        profile = self.profiles.of(pod)
        if self.unsupported.refusal(question) is not None:
            return DryRunOutcome(np.zeros(len(nodes), np.bool_), NO_CANDIDATES)
        state = profile.new_state(pod, question.deadline)
        found = run_pre_filter(profile, state, pod)
        nominated = self._nominated(question)
        judged = nodes if agreed is None else nodes.changed(agreed)
        verdicts = filter_nodes(profile, state, pod, judged, question.nodes.in_question, found, nominated)
        hopeful = np.flatnonzero(verdicts.rejected_with(Code.UNSCHEDULABLE))
        again = FilteringAgain(profile, state, pod, nominated)
        tried = dry_run(self.cluster, pod, nodes.at(hopeful), again, () if agreed is None else agreed.slots)
        return DryRunOutcome(verdicts.passing, tried.candidates)

    def given_candidate(self, pod: Pod, node_name: str, victims: Collection[int]) -> Candidate:
        """Return the candidate for given victims on a node, by slot: in order, and with their budget violations."""
        node = self.cluster.view(self.cluster.nodes.rows_named([node_name]))
        return given_candidate(self.cluster, pod, node, victims)

    def place(self, pod: Pod, node_name: str, decision: Decision | None = None) -> Placement:
        """Reserve a node for a pod, chosen here or elsewhere. The pod counts there from now on.

        The `decision` must be about this pod. Without one, plugins have no state about it, which is enough unless the
        profile `needs_state_to_bind`. An earlier placement of the pod that is not being bound ends first.
        Raises CycleError if Reserve refuses, QuantityError for a malformed quantity: then the pod counts nowhere.
        Raises CycleError, and changes nothing, if the pod is being bound, or may be bound already.
        """
        uid = pod_uid(pod)
        before = self.cluster.placements.get(uid)
        if before is not None:
            if before.assumed:
                raise CycleError(f"pod {pod_name(pod)} is being bound to {before.node_name}")
            self.cluster.drop_placement(uid)  # frees what the pod has reserved on another node, also for this pod
        if decision is None:
            profile = self.profiles.of(pod)
            state = profile.new_state(pod)
        else:
            if decision.question.pod is not pod and pod_uid(decision.question.pod) != uid:
                raise ValueError(f"the decision is about pod {pod_name(decision.question.pod)}, not {pod_name(pod)}")
            profile, state = decision.profile, decision.state
            state.deadline = math.inf  # that was the decision's; a binding may wait for minutes
        cycle = BindingCycle(profile, state, pod, node_name, self._bind_elsewhere, self.cluster.rules)
        cycle.reserve()
        runs = self.runs
        if runs.current is not None:
            runs.before_placing(pod, decision)
        try:
            placement = self.cluster.placements.place(pod, uid, node_name, cycle)
        except QuantityError:
            cycle.unreserve()
            raise
        if runs.current is not None:
            runs.placed(decision, placement)
        if decision is not None and not decision.question.chosen_elsewhere and decision.question.sample_nodes is None:
            self._last_placed = decision
        return placement

    def permit(self, placement: Placement) -> None:
        """Run Permit now, instead of in `bind`: the binding begins. Raises CycleError, and ends the placement then."""
        reservation = placement.reservation
        assert reservation is not None, "a placement without a reservation cannot be bound"
        placement.assume()  # as in `bind`, so that Permit plugins count this pod among those being bound
        try:
            reservation.permit()
        except CycleError:
            self.cluster.drop_placement(placement.uid)
            raise

    def will_wait(self, placement: Placement) -> bool:
        """Return whether the binding of a permitted pod will wait, in Permit or in PreBind. Runs PreBindPreFlight.

        Raises CycleError, and ends the placement then.
        """
        reservation = placement.reservation
        assert reservation is not None, "a placement without a reservation cannot be bound"
        try:
            return reservation.pre_flight()
        except CycleError:
            self.cluster.drop_placement(placement.uid)
            raise

    async def bind(self, placement: Placement) -> None:
        """Run Permit, PreBind, Bind and PostBind. Raises BindError; see Binder.bind."""
        await self.binder.bind(placement)

    def undo(self, placement: Placement, why: str) -> None:
        """End a placement whose pod has not reached Bind, and free its resources.

        A binding that waits in Permit or PreBind is cancelled, and keeps its resources until it has ended. One that has
        reached Bind goes on. If the watch has confirmed the placement, PostBind runs unless it has; otherwise, nothing
        happens if the placement has ended already.
        """
        if placement.is_confirmed and placement.reservation is not None:
            placement.reservation.run_post_bind()
        if self.cluster.placements.get(placement.uid) is not placement:
            return
        if self.binder.binding_of(placement.uid) is not None:
            self.binder.undo(placement.uid, why)
        elif placement.reservation is None or not placement.reservation.has_reached_bind:
            self.cluster.drop_placement(placement.uid)

    def preempt_in_pre_bind(self, uid: str, why: str) -> bool:
        """Have the binding of a pod fail if it is in PreBind; returns whether it was."""
        placement = self.cluster.placements.get(uid)
        reservation = None if placement is None else placement.reservation
        return reservation is not None and reservation.preempt_in_pre_bind(why)

    def prepare(self) -> None:
        """Decide ahead, and update columns for the next question. Call this while no caller waits for an answer."""
        placed, self._last_placed = self._last_placed, None
        if placed is not None:
            pod, nodes = placed.question.pod, placed.question.nodes
            if self.ahead.is_worthwhile(placed.profile, pod) and nodes.by_name:
                question = self.ahead.question(placed.profile, pod, nodes.again(self.nodes))
                self.ahead.prepare(placed.profile, question, self._nominated(question))
        self.cluster.catch_up()

    def _nominated(self, question: Question) -> Nominated:
        return self._nominated_for(question.pod)

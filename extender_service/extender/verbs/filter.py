"""The filter verb: which nodes a pod may run on; in `replace` mode, the one node chosen for it."""

import asyncio
import logging
import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.extender.expectations import Expectations
from extender_service.extender.modes import Policy
from extender_service.extender.preemption import OwnPreemption
from extender_service.extender.refused_pods import RefusedPods
from extender_service.extender.second_look import SecondLook
from extender_service.extender.trust import Trust
from extender_service.extender.watch_lag import WatchLag
from extender_service.extender.wire.requested_nodes import UNKNOWN_NODE, RequestedNodes, WholeNodes
from extender_service.framework.guard import CycleError
from extender_service.framework.status import Code
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.extender_api import ExtenderArgs, ExtenderFilterResult, ResultNodeList
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.asked_nodes import AskedNodes
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.explanation import Grounds, grounds
from extender_service.scheduling.question import Question
from extender_service.seams import Clock
from extender_service.serving.scope import HungUp

log = logging.getLogger(__name__)

# The most characters of one answer. kube-scheduler keeps these texts, too; they may quote the pod, once for each node.
_MOST_REASON_CHARACTERS = 32 << 20
# How long a call waits for a binding to end, and for reading whether the pod is bound. Meanwhile, kube-scheduler
# schedules no other pod.
_SETTLE_SECONDS = 0.25


class FilterOutcome(msgspec.Struct):
    """The answer, and what to report about it.

    `grounds` are those of the decision, None if the pod was being bound already. `passing` marks the nodes in the
    answer among those of the request, if it has all that pass. Their names, if it has names, are not yet in the
    `result`: they need not be encoded again for each call.
    """

    result: ExtenderFilterResult
    asked: int
    passed: int
    node_name: str = ""
    grounds: Grounds | None = None
    looked_again: bool = False
    ahead: bool = False
    passing: NDArray[np.bool_] | None = None


class FilterVerb:
    """Answers which nodes pass, or which node was chosen, if the policy chooses one.

    If the cluster is a file, it does not change by itself: `second_look` is None, and no pod is expected or noted in
    `refused`. Set `preemption` to preempt for pods that fit nowhere; otherwise kube-scheduler does.
    """

    def __init__(
        self,
        engine: Engine,
        nodes: RequestedNodes,
        trust: Trust,
        expectations: Expectations,
        policy: Policy,
        *,
        lag: WatchLag,
        second_look: SecondLook | None,
        refused: RefusedPods,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._cluster = engine.cluster
        self._nodes = nodes
        self._trust = trust
        self._expectations = expectations
        self._policy = policy
        self._lag = lag
        self._second_look = second_look
        self._refused = refused
        self.preemption: OwnPreemption | None = None
        self._clock = clock
        # kube-scheduler rebuilds whole nodes from the answer, which only matters to its own Score plugins.
        self._warns_of_whole_nodes = second_look is not None and not policy.chooses_node

    async def __call__(
        self, pod: Pod, args: ExtenderArgs, hung_up: HungUp, deadline: float = math.inf
    ) -> FilterOutcome:
        """Decide, and in `replace` reserve the chosen node; the pod is expected there unless it or the caller is gone.

        Raises CycleError, DecodeError or QuantityError if no decision is possible, or not by the `deadline`.
        """
        await self._trust.wait()
        self._trust.require()
        self._expectations.expire()
        if args.nodes is not None:
            self._warn_of_whole_nodes()
        uid = pod_uid(pod)
        bound_to = await self._held_by_binding(uid, pod, args, deadline)
        if bound_to is not None:
            return bound_to
        self._cluster.drop_placement(uid)
        if pod.status.nominated_node_name:
            self._expectations.drop_victims(uid, pod.status.nominated_node_name)
        nominated = pod
        if self.preemption is not None:
            nominated = self.preemption.as_nominated(pod)
        decision, looked_again = await self._decide(nominated, args, deadline)
        if looked_again:
            self._require_last_call(uid, pod)
        if self._policy.chooses_node and len(decision.feasible):
            outcome = self._chosen(uid, pod, decision, hung_up)
            self._note(uid, decision)
        else:
            outcome = _all_passing(decision)
            self._note(uid, decision)
            if self.preemption is not None and not hung_up():
                self.preemption.preempt(decision, pod)
        outcome.grounds = grounds(decision)
        outcome.looked_again = looked_again
        outcome.ahead = decision.is_ahead
        return outcome

    async def _held_by_binding(self, uid: str, pod: Pod, args: ExtenderArgs, deadline: float) -> FilterOutcome | None:
        """Answer with the node that the pod is being bound to, or was bound to without our watch showing it yet.

        If the caller does not ask about that node, the binding is undone first. Raises CycleError if it ended with the
        pod bound, or does not end soon.
        """
        binder = self._engine.binder
        placement = self._cluster.placements.get(uid)
        if placement is None or not placement.assumed:
            if (under_way := binder.binding_of(uid)) is not None:
                raise CycleError(f"pod {pod_name(pod)} is being bound to {under_way.node_name}")
            return None
        asked = self._nodes.find(args)
        position = asked.view.position_of(placement.node_name)
        if position >= 0 and asked.in_question[position]:
            return _one(asked, position, 1)
        binder.undo(uid, "the pod was asked about on other nodes")
        try:
            async with asyncio.timeout(min(_SETTLE_SECONDS, deadline - self._clock())):
                bound_to = await binder.confirmations.read_after_binding(uid)
        except TimeoutError as error:
            doing = "is being bound" if binder.binding_of(uid) is not None else "may be bound already"
            raise CycleError(f"pod {pod_name(pod)} {doing} to {placement.node_name}") from error
        if bound_to is not None:
            raise CycleError(f"pod {pod_name(pod)} is already bound to {bound_to}")
        self._require_last_call(uid, pod)
        return None

    def _require_last_call(self, uid: str, pod: Pod) -> None:
        """Raise CycleError if another call about the pod arrived while this one waited: the later call counts."""
        if self._cluster.placements.get(uid) is not None or self._engine.binder.binding_of(uid) is not None:
            raise CycleError(f"pod {pod_name(pod)} was asked about again in the meantime")

    async def _decide(self, pod: Pod, args: ExtenderArgs, deadline: float) -> tuple[Decision, bool]:
        """Decide, and before refusing every node wait a moment for the watch. Also returns whether it waited."""

        policy = self._policy

        def decide() -> Decision:
            question = Question(
                pod,
                self._nodes.find(args),
                deadline,
                policy.chooses_node,
                policy.refuses_unsupported,
            )
            return self._engine.decide(question)

        decision = decide()
        if len(decision.feasible) or self._second_look is None:
            return decision, False
        decision, looked_again = await self._second_look.decide(decision, decide, deadline)
        if looked_again and self.preemption is not None and not len(decision.feasible):
            decision = decide()  # victims are chosen in the state that was decided in
        return decision, looked_again

    def _note(self, uid: str, decision: Decision) -> None:
        """Note a refusal that may be due to the watch alone, or forget the one before."""
        if self._second_look is None:
            return
        if not len(decision.feasible) and not decision.is_final:
            self._refused.note(decision.question.pod, decision.question.nodes)
        elif len(self._refused):
            self._refused.forget(uid)

    def _chosen(self, uid: str, pod: Pod, decision: Decision, hung_up: HungUp) -> FilterOutcome:
        """Answer with one of the best nodes, and place the pod there.

        Nothing may be awaited after the decision: otherwise another call could get the same room.
        """
        outcome = _one(decision.question.nodes, decision.choose(), len(decision.feasible))
        if self._second_look is not None and self._may_be_bound(uid, pod) and not hung_up():
            self._expectations.expect(self._engine.place(pod, outcome.node_name, decision))
        return outcome

    def _may_be_bound(self, uid: str, pod: Pod) -> bool:
        """Return whether a binding may follow: a call that was long on its way may be about a pod that has ended."""
        known = self._cluster.pod(uid)
        return not self._lag.has_ended(pod) if known is None else not known.node_name

    def _warn_of_whole_nodes(self) -> None:
        """Warn once where kube-scheduler sends whole nodes beside its own Score plugins."""
        if self._warns_of_whole_nodes:
            self._warns_of_whole_nodes = False
            log.warning(
                "kube-scheduler sends whole nodes: it makes them again from the answer, without their pods, so its own "
                "Score plugins take them for empty; set nodeCacheCapable: true"
            )


def _one(asked: AskedNodes, position: int, passed: int) -> FilterOutcome:
    name = asked.view.name_at(position)
    if isinstance(asked, WholeNodes):
        result = ExtenderFilterResult(nodes=ResultNodeList([asked.items[asked.index_of(position)]]))
    else:
        result = ExtenderFilterResult(node_names=[name])
    return FilterOutcome(result, len(asked.names), passed, name)


def _all_passing(decision: Decision) -> FilterOutcome:
    asked, verdicts = decision.question.nodes, decision.verdicts
    failed: dict[str, str] = {}
    unresolvable = dict.fromkeys(asked.unknown, UNKNOWN_NODE)
    characters = 0
    for status, positions in verdicts.groups():
        message = status.message
        characters += len(message) * len(positions)
        if characters > _MOST_REASON_CHARACTERS:
            raise CycleError(
                f"the reasons against {len(positions)} nodes have {len(message)} characters for each, too many "
                f"to answer: {message[:200]}…"
            )
        into = unresolvable if status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE else failed
        into.update(dict.fromkeys(asked.view.names_at(positions), message))
    passing = asked.passing(verdicts.passing)
    items = asked.items if isinstance(asked, WholeNodes) else None
    result = ExtenderFilterResult(
        nodes=None if items is None else ResultNodeList([items[index] for index in passing.nonzero()[0].tolist()]),
        node_names=[] if items is None else None,
        failed_nodes=failed,
        failed_and_unresolvable_nodes=unresolvable,
    )
    return FilterOutcome(result, len(asked.names), int(np.count_nonzero(passing)), passing=passing)

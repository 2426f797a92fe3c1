"""The preempt verb: on which nodes deleting pods makes room."""

import logging
import math
from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.extender.expectations import Expectations
from extender_service.extender.modes import Policy
from extender_service.extender.refused_pods import RefusedPods
from extender_service.extender.trust import Trust
from extender_service.extender.watch_lag import WatchLag
from extender_service.extender.wire.failures import WrongCallError
from extender_service.framework.guard import require_time
from extender_service.framework.interface import Candidate
from extender_service.framework.status import Code
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.extender_api import (
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    MetaPod,
    MetaVictims,
)
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.engine import DryRunOutcome, Engine
from extender_service.scheduling.question import Question
from extender_service.seams import Clock

log = logging.getLogger(__name__)


class Proposal(msgspec.Struct):
    """The victims that kube-scheduler proposes for a node, and those of them that count there, by UID and slot."""

    proposed: MetaVictims
    there: dict[str, int]

    @property
    def is_current(self) -> bool:
        """Whether all of the proposed victims count on the node."""
        return {victim.uid for victim in self.proposed.pods} == self.there.keys()


class PreemptVerb:
    """Answers on which of the proposed nodes the pod fits after which pods are deleted.

    Set `is_off` if the service preempts by itself: both would evict pods for the same one.
    """

    def __init__(
        self,
        engine: Engine,
        trust: Trust,
        expectations: Expectations,
        policy: Policy,
        lag: WatchLag,
        refused: RefusedPods,
        *,
        clock: Clock,
    ) -> None:
        self._engine = engine
        self._cluster = engine.cluster
        self._trust = trust
        self._expectations = expectations
        self._policy = policy
        self._lag = lag
        self._refused = refused
        self._clock = clock
        self.is_off = False

    def __call__(self, pod: Pod, args: ExtenderPreemptionArgs, deadline: float = math.inf) -> ExtenderPreemptionResult:
        """Answer with the nodes where preemption helps, and the victims there.

        In `beside`, the victims are the proposed ones, which kube-scheduler's own plugins need, and more only where
        this service's plugins need more. In `replace`, they are those that this service's plugins need, or the proposed
        ones where these plugins need none. The answer leaves out nodes where preemption does not help, and nodes
        without victims: an empty list makes kube-scheduler panic, and a UID that it does not find on the node is an
        error. It has no nodes while room is coming on the pod's nominated node, or where the pod was asked about with
        nodes that are not known yet.
        Raises CycleError, also after the `deadline`.
        """
        if self.is_off:
            raise WrongCallError("the service preempts by itself (--preemption=service): configure no preemptVerb")
        self._trust.require()
        self._expectations.expire()
        if self._refused.awaits_nodes(self._refused.get(pod_uid(pod))) or self._is_room_coming(pod, deadline):
            log.info("a pod preempts no others while the watch is behind", extra={"pod": pod_name(pod)})
            self._refused.note_withheld(pod)
            return ExtenderPreemptionResult({})
        proposals = self._present(pod, _proposed(args))
        if not proposals:
            return ExtenderPreemptionResult({})
        asked = self._engine.nodes.named_once(list(proposals))
        question = Question(pod, asked, deadline, refuses_unsupported=self._policy.refuses_unsupported)
        agreed = _agreed(proposals, asked.positions) if self._policy.agrees_on_victims else None
        outcome = self._engine.dry_run(question, agreed)
        victims = self._victims(question, proposals, outcome)
        self._expectations.note_victims(pod_uid(pod), victims)
        return ExtenderPreemptionResult(victims)

    def _is_room_coming(self, pod: Pod, deadline: float) -> bool:
        """Return whether the pod has to wait for its victims to end (PodEligibleToPreemptOthers).

        kube-scheduler has checked that, too, but may have seen the end of victims that our watch still shows.
        """
        if not self._lag.is_room_coming(pod):
            return False
        nominated = self._engine.nodes.named_once([pod.status.nominated_node_name])
        question = Question(pod, nominated, deadline, refuses_unsupported=self._policy.refuses_unsupported)
        verdicts = self._engine.decide(question).verdicts
        # Where no room helps, kube-scheduler preempts elsewhere.
        return not verdicts.rejected_with(Code.UNSCHEDULABLE_AND_UNRESOLVABLE).any()

    def _present(self, pod: Pod, proposed: Mapping[str, MetaVictims]) -> dict[str, Proposal]:
        """Find the proposed nodes and victims in the cluster.

        Leaves out unknown nodes, nodes without any victim, and those where the answer would split a group of pods.
        """
        proposals: dict[str, Proposal] = {}
        for name, victims in proposed.items():
            # By UID: a pod that is proposed twice counts as one victim.
            slots = {victim.uid: self._cluster.slot_on(victim.uid, name) for victim in victims.pods}
            proposal = Proposal(victims, {uid: slot for uid, slot in slots.items() if slot is not None})
            if not proposal.is_current:
                log.info(
                    "some of the proposed victims are not on their node",
                    extra={
                        "pod": pod_name(pod),
                        "node": name,
                        "uids": " ".join(uid for uid in slots if uid not in proposal.there),
                    },
                )
            if proposal.there and self._cluster.nodes.is_node(name) and not self._splits_group(proposal):
                proposals[name] = proposal
        return proposals

    def _splits_group(self, proposal: Proposal) -> bool:
        """Return whether some of the proposed victims are elsewhere, and others in a group, which goes as a whole.

        The answer may only name pods on the node: kube-scheduler would evict these, and leave the rest of the group.
        """
        if proposal.is_current or not self._cluster.rules.groups_preempted:
            return False
        return bool(self._cluster.pods.in_group[list(proposal.there.values())].any())

    def _victims(
        self, question: Question, proposals: Mapping[str, Proposal], outcome: DryRunOutcome
    ) -> dict[str, MetaVictims]:
        candidates = {candidate.node_name: candidate for candidate in outcome.candidates}
        kept: dict[str, MetaVictims] = {}
        for position, (name, proposal) in enumerate(proposals.items()):
            require_time(self._clock, question.deadline, "settling the victims")
            passes = outcome.passing[question.nodes.positions[position]]
            if passes and proposal.is_current:
                # Each victim once, as on the node.
                victims = [MetaPod(uid) for uid in proposal.there]
                kept[name] = MetaVictims(victims, proposal.proposed.num_pdb_violations)
                continue
            candidate = candidates.get(name)
            if passes:
                candidate = self._engine.given_candidate(question.pod, name, proposal.there.values())
            if candidate is not None:
                kept[name] = self._in_uids(candidate)
        return kept

    def _in_uids(self, candidate: Candidate) -> MetaVictims:
        victims = [MetaPod(self._cluster.pods[slot].uid) for slot in candidate.victims]
        return MetaVictims(victims, candidate.pdb_violations)


def _agreed(proposals: Mapping[str, Proposal], positions: NDArray[np.intp]) -> RowChanges:
    """Return the proposed victims as changes of their nodes."""
    at_nodes = zip(positions.tolist(), proposals.values(), strict=True)
    gone = [(at, slot) for at, proposal in at_nodes for slot in proposal.there.values()]
    return RowChanges([at for at, _ in gone], [slot for _, slot in gone], [-1] * len(gone))


def _proposed(args: ExtenderPreemptionArgs) -> Mapping[str, MetaVictims]:
    if args.node_name_to_meta_victims is not None:
        return args.node_name_to_meta_victims
    return {
        name: MetaVictims([MetaPod(victim.metadata.uid) for victim in victims.pods], victims.num_pdb_violations)
        for name, victims in (args.node_name_to_victims or {}).items()
    }

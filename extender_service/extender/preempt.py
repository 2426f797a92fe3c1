"""The preempt verb: on which nodes deleting pods makes room."""

import logging
import math
from collections.abc import Mapping

import msgspec
import numpy as np

from extender_service.cluster.own_worlds import RowChanges
from extender_service.cluster.view import NodeView
from extender_service.extender.service import ExtenderService, pod_name
from extender_service.extender.wire import ExtenderPreemptionArgs, ExtenderPreemptionResult, MetaPod, MetaVictims
from extender_service.framework.interface import CycleState
from extender_service.framework.preemption import dry_run, given_candidate
from extender_service.framework.recording import sample
from extender_service.framework.runtime import filter_again, filter_nodes, require_time, run_pre_filter
from extender_service.framework.status import Code
from extender_service.kube.objects import Pod

log = logging.getLogger(__name__)


class _Proposal(msgspec.Struct):
    """What kube-scheduler proposes for a node, and which of it is there: UIDs and slots of pods that count on it."""

    proposed: MetaVictims
    there: dict[str, int]

    @property
    def is_current(self) -> bool:
        """Whether all of the proposed victims are there."""
        return {victim.uid for victim in self.proposed.pods} == self.there.keys()


def preempt(
    service: ExtenderService, pod: Pod, args: ExtenderPreemptionArgs, deadline: float = math.inf
) -> ExtenderPreemptionResult:
    """Answer on which of the proposed nodes the pod fits once which pods are gone.

    In `beside` mode the proposed victims go, since kube-scheduler's own plugins need it, and more only where
    this service's plugins need more; in `replace` mode, what these need. The proposed victims go where these
    need none. Nodes where nothing helps are dropped, and those without victims: kube-scheduler takes a UID that it does
    not find on a node for an error, and an empty list for a crash. Raises CycleError, also after the
    `deadline`.
    """
    service.require_trust()
    cluster = service.cluster
    cluster.expire()
    proposals = _proposals(service, pod, args)
    if not proposals:
        return ExtenderPreemptionResult({})
    profile = service.profile_for(pod)
    state = CycleState(pod, sample(profile), deadline)
    found = run_pre_filter(profile, state, pod)
    nominated = cluster.nominated_for(pod, service.profiles)
    nodes = cluster.view(cluster.nodes.rows_named(list(proposals)))
    given = {slot for proposal in proposals.values() for slot in proposal.there.values()}
    as_agreed = _without(nodes, proposals) if service.mode == "beside" else nodes
    everywhere = np.ones(len(nodes), np.bool_)
    verdicts = filter_nodes(profile, state, pod, as_agreed, everywhere, found, nominated)
    hopeful = np.flatnonzero(verdicts.rejected_with(Code.UNSCHEDULABLE))
    again = filter_again(profile, state, pod, nominated)
    tried = dry_run(cluster, pod, nodes.at(hopeful), again, given if service.mode == "beside" else ())
    candidates = {candidate.node_name: candidate for candidate in tried.candidates}
    kept: dict[str, MetaVictims] = {}
    for name, passes in zip(proposals, verdicts.passing.tolist(), strict=True):
        require_time(deadline, "settling the victims")
        if passes and proposals[name].is_current:
            # Each once, as it is on the node.
            uids = list(proposals[name].there)
            kept[name] = MetaVictims([MetaPod(uid) for uid in uids], proposals[name].proposed.num_pdb_violations)
            continue
        candidate = candidates.get(name)
        if passes:
            node = cluster.view(cluster.nodes.rows_named([name]))
            candidate = given_candidate(cluster, pod, node, proposals[name].there.values())
        if candidate is not None:
            victims = [MetaPod(cluster.pods[slot].uid) for slot in candidate.victims]
            kept[name] = MetaVictims(victims, candidate.pdb_violations)
    return ExtenderPreemptionResult(kept)


def _without(nodes: NodeView, proposals: Mapping[str, _Proposal]) -> NodeView:
    gone = [(at, slot) for at, proposal in enumerate(proposals.values()) for slot in proposal.there.values()]
    return nodes.changed(RowChanges([at for at, _ in gone], [slot for _, slot in gone], [-1] * len(gone)))


def _proposals(service: ExtenderService, pod: Pod, args: ExtenderPreemptionArgs) -> dict[str, _Proposal]:
    """Find what is proposed in the cluster; nodes that are not there, or none of whose victims is, are left out."""
    cluster = service.cluster
    proposals: dict[str, _Proposal] = {}
    for name, proposed in _proposed(args).items():
        # By UID: a pod that is proposed twice can be taken off its node only once.
        slots = {victim.uid: cluster.slot_on(victim.uid, name) for victim in proposed.pods}
        proposal = _Proposal(proposed, {uid: slot for uid, slot in slots.items() if slot is not None})
        if not proposal.is_current:
            log.info(
                "some of the proposed victims are not on their node",
                extra={
                    "pod": pod_name(pod),
                    "node": name,
                    "uids": " ".join(uid for uid in slots if uid not in proposal.there),
                },
            )
        if proposal.there and cluster.nodes.is_node(name):
            proposals[name] = proposal
    return proposals


def _proposed(args: ExtenderPreemptionArgs) -> Mapping[str, MetaVictims]:
    if args.node_name_to_meta_victims is not None:
        return args.node_name_to_meta_victims
    return {
        name: MetaVictims([MetaPod(victim.metadata.uid) for victim in victims.pods], victims.num_pdb_violations)
        for name, victims in (args.node_name_to_victims or {}).items()
    }

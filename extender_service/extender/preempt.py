"""The preempt verb: on which nodes deleting pods makes room."""

from collections.abc import Mapping

import numpy as np

from extender_service.cluster.view import RowChanges
from extender_service.extender.service import ExtenderService
from extender_service.extender.wire import ExtenderPreemptionArgs, ExtenderPreemptionResult, MetaPod, MetaVictims
from extender_service.framework.runtime import decide
from extender_service.kube.objects import Pod


def preempt(service: ExtenderService, pod: Pod, args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
    """Keep the nodes on which the pod fits once the proposed victims are gone.

    Victims that are not on their node any more are left out, and a node without any is dropped: kube-scheduler takes a
    UID that it does not find there for an error, and an empty list for a crash. Raises CycleError.
    """
    service.require_trust()
    cluster = service.cluster
    cluster.expire()
    kept: dict[str, MetaVictims] = {}
    taken: list[tuple[int, int]] = []
    for name, proposed in _proposed(args).items():
        # By UID: a pod that is proposed twice can be taken off its node only once.
        slots = {victim.uid: cluster.slot_on(victim.uid, name) for victim in proposed.pods}
        there = {uid: slot for uid, slot in slots.items() if slot is not None}
        if there and cluster.nodes.is_node(name):
            taken += [(len(kept), slot) for slot in there.values()]
            kept[name] = MetaVictims([MetaPod(uid) for uid in there], proposed.num_pdb_violations)
    if not kept:
        return ExtenderPreemptionResult({})
    names = list(kept)
    without = cluster.view(cluster.nodes.rows_named(names)).changed(
        RowChanges([position for position, _ in taken], [slot for _, slot in taken], [-1] * len(taken))
    )
    asked = np.ones(len(names), np.bool_)
    nominated = cluster.nominated_for(pod, service.profiles)
    decision = decide(service.profile_for(pod), pod, without, asked, score=False, nominated=nominated)
    return ExtenderPreemptionResult({names[position]: kept[names[position]] for position in decision.feasible})


def _proposed(args: ExtenderPreemptionArgs) -> Mapping[str, MetaVictims]:
    if args.node_name_to_meta_victims is not None:
        return args.node_name_to_meta_victims
    return {
        name: MetaVictims([MetaPod(victim.metadata.uid) for victim in victims.pods], victims.num_pdb_violations)
        for name, victims in (args.node_name_to_victims or {}).items()
    }

"""Preemption that extenders must agree to: they may drop candidates, and change victims (callExtenders)."""

from collections.abc import Callable, Mapping

import numpy as np

from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.interface import Candidate, PostFilterResult
from extender_service.framework.preemption.candidates import Candidates, best_candidates, found_room
from extender_service.framework.status import Code, Status, unschedulable
from extender_service.kube.types.core import Pod
from extender_service.scheduler.extenders.extender_client import ExtenderError, ProposedVictims
from extender_service.scheduler.extenders.extenders import Extenders
from extender_service.scheduling.eviction import victim_in


async def agreed_preemption(
    extenders: Extenders, cluster: Cluster, pod: Pod, candidates: list[Candidate], randrange: Callable[[int], int]
) -> PostFilterResult:
    """Choose again, among the candidates that the extenders agree on. PostFilter plugins that come later are not asked.

    The candidates must hold now. `randrange` chooses among equal ones.
    """
    victims = {candidate.node_name: _proposed(cluster, candidate) for candidate in candidates}
    try:
        agreed = await extenders.preempt(pod, victims, cluster)
        if not agreed:
            return PostFilterResult(unschedulable("preemption: no candidate node for preemption"))
        best = best_candidates(cluster.pods, _candidates(cluster, agreed))
    except ExtenderError as error:
        return PostFilterResult(Status(Code.ERROR, (f"preemption: {error}",)))
    chosen = best[randrange(len(best))]
    return PostFilterResult(found_room(chosen, cluster.rules), chosen.node_name, chosen.victims)


def _proposed(cluster: Cluster, candidate: Candidate) -> ProposedVictims:
    return ProposedVictims(tuple(victim_in(cluster, slot) for slot in candidate.victims), candidate.pdb_violations)


def _candidates(cluster: Cluster, agreed: Mapping[str, ProposedVictims]) -> Candidates:
    """Return candidates with the slots of the victims as they are now. Raises ExtenderError if one has gone."""
    slots = []
    for name, victims in agreed.items():
        for victim in victims.pods:
            slot = cluster.slot_on(victim.uid, name)
            if slot is None:
                raise ExtenderError(f"pod {victim.namespace}/{victim.name} left node {name} while extenders were asked")
            slots.append(slot)
    return Candidates(
        list(agreed),
        np.array(slots, np.intp),
        np.array([len(victims.pods) for victims in agreed.values()], np.intp),
        np.array([victims.pdb_violations for victims in agreed.values()], np.intp),
    )

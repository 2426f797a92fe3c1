"""The prioritize verb: how good each feasible node is."""

import math

import numpy as np
from numpy.typing import NDArray

from extender_service.extender.priorities import Priorities
from extender_service.extender.service import ExtenderService
from extender_service.extender.wire import ExtenderArgs
from extender_service.framework.interface import CycleState
from extender_service.framework.profile import Profile
from extender_service.framework.recording import sample
from extender_service.framework.runtime import run_pre_filter, run_pre_score, run_score
from extender_service.kube.objects import Pod

# The range that kube-scheduler expects beside its own scores (MaxExtenderPriority in extender/v1/types.go).
MAX_PRIORITY = 10


def prioritize(service: ExtenderService, pod: Pod, args: ExtenderArgs, deadline: float = math.inf) -> Priorities:
    """Score the nodes of a request, in their order; a node that is not known scores 0.

    Beside kube-scheduler's own scores: 0..10. In `replace` mode, where there are no others: the weighted totals of the
    framework, which tell more nodes apart.

    Raises CycleError, DecodeError or QuantityError for what cannot be scored by the `deadline`.
    """
    service.require_trust()
    profile = service.profile_for(pod)
    service.cluster.expire()
    found = service.candidates.find(args)
    state = CycleState(pod, sample(profile), deadline)
    run_pre_filter(profile, state, pod)
    known = np.flatnonzero(found.asked)
    # One more, which the position of a node that is not known picks.
    totals = np.zeros(len(found.view) + 1, np.int64)
    if len(known):
        nodes = found.view if len(known) == len(found.view) else found.view.at(known)
        run_pre_score(profile, state, pod, nodes)
        scored = run_score(profile, state, pod, nodes).totals
        totals[known] = scored if service.mode == "replace" else _to_priorities(profile, scored)
    return Priorities(found.names, totals[found.positions])


def _to_priorities(profile: Profile, totals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Scale totals from 0..max_total to 0..10, rounded to the nearest."""
    highest = max(profile.max_total, 1)
    scaled: NDArray[np.int64] = (2 * MAX_PRIORITY * totals + highest) // (2 * highest)
    return scaled

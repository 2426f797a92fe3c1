"""This project's verdict on preemption, in the oracle's form."""

from typing import Any, Protocol

import numpy as np

from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.guard import CycleError
from extender_service.framework.interface import Candidate
from extender_service.framework.preemption.candidates import NO_CANDIDATES, Candidates, best_candidates
from extender_service.framework.preemption.dry_run import dry_run, ineligible
from extender_service.framework.preemption.filtering_again import FilteringAgain
from extender_service.framework.profile import Profile
from extender_service.framework.runtime import run_post_filter
from extender_service.framework.status import Code
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod
from extender_service.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs


class Subject(Protocol):
    """A pod, the cluster, and the profile that decides."""

    cluster: Cluster
    pod: Pod
    profile: Profile
    scheduler_names: list[str]


def preempted(subject: Subject, state: CycleState, verdicts: Verdicts) -> dict[str, Any] | None:
    """Say what PostFilter does where no node fits; None if DefaultPreemption is not one of its plugins."""
    plugins = [plugin for plugin in subject.profile.post_filter if isinstance(plugin, DefaultPreemption)]
    if not plugins:
        return None
    message = ineligible(subject.cluster, subject.pod, verdicts)
    candidates = NO_CANDIDATES if message is not None else _candidates(subject, state, verdicts)
    tied = sorted(best_candidates(subject.cluster.pods, candidates).names) if len(candidates) else []
    for plugin in plugins:
        plugin.args = DefaultPreemptionArgs(min_candidate_nodes_percentage=100)
    nominated = subject.cluster.nominated_for(subject.pod, subject.scheduler_names)
    result = run_post_filter(subject.profile, state, subject.pod, verdicts, nominated)
    if bool(tied) != bool(result.node_name) or (tied and result.node_name not in tied):
        raise AssertionError(f"{result.node_name!r} is none of {tied}")
    return {
        "eligible": message is None,
        "message": message or "",
        "candidates": [
            _in_words(subject.cluster, candidate)
            for candidate in sorted(candidates, key=lambda candidate: candidate.node_name)
        ],
        "selected": tied[0] if tied else None,
        "tied": tied,
        # kube-scheduler names no plugin in a success.
        "plugin": None if result.status.code == Code.SUCCESS else result.status.plugin or None,
        "code": result.status.code.label,
        # Where several nodes are equally good, the reference's reason names the one that the verdict selects.
        "reasons": [
            reason.replace(f"on node {result.node_name},", f"on node {tied[0]},") if tied else reason
            for reason in result.status.reasons
        ],
    }


def _candidates(subject: Subject, state: CycleState, verdicts: Verdicts) -> Candidates:
    hopeful = np.flatnonzero(verdicts.rejected_with(Code.UNSCHEDULABLE) & verdicts.view.exists)
    if not len(hopeful):
        return NO_CANDIDATES
    nominated = subject.cluster.nominated_for(subject.pod, subject.scheduler_names)
    again = FilteringAgain(subject.profile, state, subject.pod, nominated)
    try:
        tried = dry_run(subject.cluster, subject.pod, verdicts.view.at(hopeful), again)
    except CycleError:
        # The error shows in the status of PostFilter.
        return NO_CANDIDATES
    return tried.candidates


def _in_words(cluster: Cluster, candidate: Candidate) -> dict[str, Any]:
    return {
        "node": candidate.node_name,
        "victims": ["/".join(cluster.pods[slot].key) for slot in candidate.victims],
        "pdbViolations": candidate.pdb_violations,
    }

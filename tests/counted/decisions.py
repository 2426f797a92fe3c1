"""Decisions about pending pods, and dry runs of preemption, as the service makes them."""

import itertools
from collections.abc import Iterator
from random import Random

import numpy as np

from bench import preemption, synthetic
from bench.decision import default_profile
from extender_service.config.release import OLDEST_MINOR
from extender_service.config.rules import rules_of
from extender_service.framework.preemption.candidates import best_candidates
from extender_service.framework.preemption.dry_run import dry_run
from extender_service.framework.preemption.filtering_again import FilteringAgain
from extender_service.framework.status import Code
from extender_service.kube.types.core import pod_name
from extender_service.scheduling.asked_nodes import AllNodes
from extender_service.scheduling.decision import decide
from extender_service.scheduling.question import Question
from tests.counted.bytecodes import executed, typical
from tests.counted.pods import PODS_PER_NODE, numbered, placed


def decision(pod_class: str, nodes: int, minor: int = OLDEST_MINOR) -> int:
    """Count a decision of the release 1.`minor` about a pod of a class; the one before has been placed."""
    return typical(deciding for deciding, _ in _decisions(pod_class, nodes, minor))


def catching_up(nodes: int) -> int:
    """Count what is brought up to date once a pod has been placed."""
    return typical(after for _, after in _decisions("plain-rs", nodes, OLDEST_MINOR))


def _decisions(pod_class: str, nodes: int, minor: int) -> Iterator[tuple[int, int]]:
    cluster = synthetic.cluster(nodes, PODS_PER_NODE, rules=rules_of(minor))
    profile = default_profile(cluster, Random(1))
    waiting = synthetic.pending_pod(pod_class)
    chosen: list[str] = []
    for number in itertools.count():
        pod = numbered(waiting, number)

        def decide_about_all() -> None:
            view = cluster.view(None)
            decision = decide(profile, Question(pod, AllNodes(view)))  # noqa: B023 - is called at once
            if len(decision.feasible):
                chosen.append(view.names[decision.choose()])

        deciding = executed(decide_about_all)
        assert (len(chosen) == number + 1) == (pod_class != synthetic.PREEMPTOR), pod_name(pod)
        if chosen:
            cluster.apply_pod(placed(pod, chosen[-1]))
        yield deciding, executed(cluster.catch_up)


def dry_run_of_preemption(victims: int, nodes: int) -> int:
    """Count the search for the best victims where a pod needs the place of so many on any node."""
    cluster = preemption.full_cluster(nodes, victims)
    pod = preemption.pending_pod(victims)
    profile = default_profile(cluster, Random(1))
    view = cluster.view(None)
    decision = decide(profile, Question(pod, AllNodes(view), must_score=False))
    hopeful = view.at(np.flatnonzero(decision.verdicts.rejected_with(Code.UNSCHEDULABLE)))
    again = FilteringAgain(profile, decision.state, pod, ())

    def search() -> None:
        found = dry_run(cluster, pod, hopeful, again).candidates
        best_candidates(cluster.pods, found)
        assert len(found) == nodes

    return typical(executed(search) for _ in itertools.count())

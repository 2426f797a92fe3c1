"""A cluster decides by what it is now, whatever it was before: what is kept between decisions must not show."""

import random
from collections.abc import Callable
from functools import partial

import pytest

from extender_service.cluster.owners.owners import WORKLOADS
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import STORAGE
from tests.conformance import golden, oracle
from tests.conformance.cases import Case, Verdict, read_cases, read_lines, read_verdicts
from tests.conformance.comparison import differences
from tests.conformance.evaluation import Evaluation, verdict_of

CASES = 25
# How often there is a decision after a step on the way from one case to the next.
DECIDING = 0.2
# These go by the order of pods and nodes, which is another here: which of two pods of the same importance is the
# victim, and which of several nodes' errors ends the cycle.
BY_ORDER = ("preempt.", "cycleError: ")


def clearing(cluster: Cluster) -> list[Callable[[], None]]:
    """Steps that take everything out of a cluster, in any order."""
    steps: list[Callable[[], None]] = [partial(cluster.remove_node, name) for name in cluster.node_names()]
    steps += [partial(cluster.remove_pod, key) for key in cluster.pod_keys()]
    for kind in WORKLOADS:
        steps += [partial(cluster.workloads.remove, kind, key) for key in cluster.workloads.keys(kind)]
    for stored in STORAGE:
        steps += [partial(cluster.remove_storage, stored, key) for key in cluster.storage.keys(stored)]
    random.shuffle(steps)
    return steps


def become(cluster: Cluster, case: Case) -> Evaluation:
    """Turn a cluster into that of a case, deciding about the case's pod on the way."""
    evaluation = Evaluation(case, cluster.rules, cluster)
    steps = clearing(cluster) + [partial(evaluation.apply, raw) for raw in case.objects]
    for step in steps:
        step()
        if random.random() < DECIDING:
            verdict_of(case.name, evaluation, None)
        if random.random() < DECIDING:
            cluster.catch_up()
    return evaluation


@pytest.mark.parametrize("family", golden.families())
def test_golden_verdicts_in_a_cluster_that_was_another_one(family: str) -> None:
    cases = read_cases(read_lines(golden.cases_path(family)))[:CASES]
    verdicts = read_verdicts(read_lines(golden.verdicts_path(family)))[:CASES]
    seed = random.randrange(10**9)
    random.seed(seed)
    cluster = Cluster(oracle.OLDEST.rules)
    for case, reference in zip(cases, verdicts, strict=True):
        evaluation = become(cluster, case)
        ours = verdict_of(case.name, evaluation, None)
        assert ("cycleError" in ours) == ("cycleError" in reference)
        found = [item for item in differences(ours, reference, ()) if not item.startswith(BY_ORDER)]
        assert found == [], f"{case.name} with seed {seed}"


@pytest.mark.parametrize("family", golden.families())
def test_what_does_not_change_the_clusters_version_changes_no_verdict(family: str) -> None:
    """So a decision that was made ahead is the one that would be made."""
    cases = read_cases(read_lines(golden.cases_path(family)))[:CASES]
    seed = random.randrange(10**9)
    random.seed(seed)
    compared = 0
    for case in cases:
        cluster = Cluster(oracle.OLDEST.rules)
        evaluation = Evaluation(case, cluster.rules, cluster)
        known: dict[object, Verdict] = {}
        # Most objects come twice, with nothing new to tell.
        for raw in sorted([*case.objects, *case.objects], key=lambda _: random.random()):
            evaluation.apply(raw)
            evaluation.node_names = sorted(set(evaluation.node_names))
            if random.random() < DECIDING:
                found = cluster.nominated_for(evaluation.pod, evaluation.scheduler_names)
                nominated = (*found.serials.tolist(), *found.rows.tolist(), *found.names) if found else ()
                verdict = verdict_of(case.name, evaluation, None)
                verdict.pop("preempt", None)  # is decided when it is asked for
                before = known.setdefault((cluster.version, nominated), verdict)
                compared += before is not verdict
                assert before == verdict, f"{case.name} with seed {seed}"
    assert compared

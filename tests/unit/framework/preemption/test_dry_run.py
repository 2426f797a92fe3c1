"""Preemption in lockstep does what kube-scheduler does node by node."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.config.rules import rules_of
from extender_service.framework.preemption.dry_run import DryRun, dry_run, fit_error
from extender_service.framework.status import unschedulable
from extender_service.framework.verdicts import Verdicts
from extender_service.kube.types.core import Pod
from extender_service.kube.types.policy import PodDisruptionBudget
from tests.support.clusters.preemption_worlds import budget, judging, preemption_cluster, preemptor, running
from tests.support.objects import in_group


def tried(cluster: Cluster, pod: Pod, proposed: Sequence[str] = ()) -> DryRun:
    slots = [slot for slot, facts in enumerate(cluster.pods.facts) if facts is not None and facts.name in proposed]
    return dry_run(cluster, pod, cluster.view(cluster.nodes.rows_named(["a", "b", "c"])), judging(cluster, pod), slots)


def victims(cluster: Cluster, found: DryRun) -> dict[str, tuple[list[str], int]]:
    return {
        candidate.node_name: ([cluster.pods[slot].name for slot in candidate.victims], candidate.pdb_violations)
        for candidate in found.candidates
    }


def over_budget(cluster: Cluster, slots: Sequence[int], budgets: Sequence[PodDisruptionBudget]) -> list[int]:
    """The pods that violate a budget when they go one after the other."""
    left = {item.metadata.name: item.status.disruptions_allowed for item in budgets}
    violating = []
    for slot in slots:
        labels = cluster.pods.label_sets[int(cluster.pods.label_set[slot])].labels
        over = False
        for item in budgets:
            assert item.spec.selector is not None
            matches = item.spec.selector.match_labels.items() <= labels.items()
            counts = not (over and cluster.rules.first_violated_budget_counts)
            if counts and matches and cluster.pods[slot].name not in item.status.disrupted_pods:
                left[item.metadata.name] -= 1
                over |= left[item.metadata.name] < 0
        if over:
            violating.append(slot)
    return violating


def one_by_one(cluster: Cluster, pod: Pod, budgets: Sequence[PodDisruptionBudget]) -> dict[str, tuple[list[str], int]]:
    """The same, one node and one pod after the other."""
    found: dict[str, tuple[list[str], int]] = {}
    judge = judging(cluster, pod)
    pods, rules = cluster.pods, cluster.rules

    def importance(slot: int) -> tuple[int, int]:
        return -int(pods.priority[slot]), int(pods.started[slot])

    for name in "abc":
        node = cluster.view(cluster.nodes.rows_named([name]))
        potential = [
            slot for slot in pods.on_row(cluster.nodes.row_of[name]) if pods.priority[slot] < pod.spec.priority
        ]
        potential.sort(key=importance)
        violating = over_budget(cluster, potential, budgets)
        log = [(slot, -1) for slot in potential]

        def fits(log: list[tuple[int, int]] = log, node: NodeView = node) -> bool:
            changes = RowChanges([0] * len(log), [slot for slot, _ in log], [sign for _, sign in log])
            return bool(judge(node.changed(changes)).passing[0])

        if not potential or not fits():
            continue
        gone = []
        for slot in violating + [slot for slot in potential if slot not in violating]:
            log.append((slot, 1))
            if not fits():
                log.append((slot, -1))
                gone.append(slot)
        if rules.victims_by_importance:
            gone.sort(key=importance)
        if gone:
            found[name] = ([pods[slot].name for slot in gone], len(set(gone) & set(violating)))
    return found


worlds = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from([0, 1, 5, 10, 20]),
        st.integers(0, 2),
        st.sampled_from(["web", "db", ""]),
        st.sampled_from([(), (), (80,), (81,)]),
    ),
    max_size=12,
)
protections = st.lists(
    st.tuples(st.sampled_from(["web", "db"]), st.integers(0, 2), st.lists(st.sampled_from(["pod-0", "pod-3"]))),
    max_size=3,
)


@given(worlds, protections, st.integers(1, 4), st.sampled_from([(), (80,), (80, 81)]), st.sampled_from([31, 36, 37]))
def test_lockstep_finds_what_node_by_node_finds(
    drawn: list[tuple[str, int, int, str, tuple[int, ...]]],
    protected: list[tuple[str, int, list[str]]],
    cpu: int,
    ports: tuple[int, ...],
    minor: int,
) -> None:
    pods = [
        running(f"pod-{number}", node, priority=priority, cpu=amount, started=number * 7 % 5, app=app, ports=used)
        for number, (node, priority, amount, app, used) in enumerate(drawn)
    ]
    budgets = [budget(f"budget-{n}", app, allowed, names) for n, (app, allowed, names) in enumerate(protected)]
    cluster, pod = preemption_cluster(pods, budgets, rules=rules_of(minor)), preemptor(cpu, ports=ports)
    assert victims(cluster, tried(cluster, pod)) == one_by_one(cluster, pod, budgets)


def test_the_least_important_pods_go() -> None:
    pods = [
        running("old", "a", priority=1, cpu=2, started=1, app="web"),
        running("new", "a", priority=1, cpu=2, started=2, app="web"),
        running("high", "b", priority=10, cpu=4, started=1, app="web"),
    ]
    cluster = preemption_cluster(pods)
    found = tried(cluster, preemptor(2))
    assert victims(cluster, found) == {"a": (["new"], 0)}
    assert [(status.reasons, count) for status, count in found.failed] == [
        (("No preemption victims found for incoming pod",), 2)
    ]


def test_pods_that_a_budget_protects_are_spared_first() -> None:
    pods = [
        running("plain", "a", priority=2, cpu=2, started=1, app="db"),
        running("protected", "a", priority=1, cpu=2, started=2, app="web"),
    ]
    cluster = preemption_cluster(pods, [budget("web", "web", 0)])
    assert victims(cluster, tried(cluster, preemptor(2))) == {"a": (["plain"], 0)}
    assert victims(cluster, tried(cluster, preemptor(4))) == {"a": (["protected", "plain"], 1)}
    cluster.workloads.apply(budget("web", "web", 0, ["protected"]))
    assert victims(cluster, tried(cluster, preemptor(4))) == {"a": (["plain", "protected"], 0)}


@pytest.mark.parametrize(
    ("minor", "expected"),
    [
        (31, ["protected", "late", "early", "low"]),
        (32, ["early", "protected", "late", "low"]),
    ],
)
def test_victims_are_in_the_order_of_importance_later(minor: int, expected: list[str]) -> None:
    pods = [
        running("early", "a", priority=2, cpu=1, started=1, app="db"),
        running("late", "a", priority=1, cpu=1, started=2, app="web"),
        running("low", "a", priority=0, cpu=1, started=3, app="db"),
        running("protected", "a", priority=1, cpu=1, started=1, app="web"),
    ]
    cluster = preemption_cluster(pods, [budget("web", "web", 0)], rules=rules_of(minor))
    assert victims(cluster, tried(cluster, preemptor(4))) == {"a": (expected, 2)}


@pytest.mark.parametrize("minor", [31, 32])
def test_of_equal_importance_pods_of_a_used_up_budget_stay_first(minor: int) -> None:
    pods = [
        running("first", "a", priority=1, cpu=2, started=1, app="db"),
        running("protected", "a", priority=1, cpu=2, started=1, app="web"),
    ]
    cluster = preemption_cluster(pods, [budget("web", "web", 0)], rules=rules_of(minor))
    assert victims(cluster, tried(cluster, preemptor(4))) == {"a": (["protected", "first"], 1)}


def test_given_victims_go_in_any_case() -> None:
    pods = [
        running("high", "a", priority=2, cpu=2, started=1, app="db"),
        running("low", "a", priority=1, cpu=2, started=2, app="web"),
    ]
    cluster = preemption_cluster(pods)
    assert victims(cluster, tried(cluster, preemptor(2), ["high"])) == {"a": (["high"], 0)}
    assert victims(cluster, tried(cluster, preemptor(4), ["low"])) == {"a": (["high", "low"], 0)}


@pytest.mark.parametrize(
    ("minor", "gates", "where"),
    [(37, {}, {"a", "b"}), (37, {"GenericWorkload": True}, {"b"}), (36, {"GenericWorkload": True}, {"a", "b"})],
)
def test_where_groups_of_pods_count_none_of_their_pods_is_chosen(
    minor: int, gates: dict[str, bool], where: set[str]
) -> None:
    pods = [
        in_group(running("worker", "a", priority=1, cpu=4, started=1, app="web")),
        running("web", "b", priority=1, cpu=4, started=1, app="web"),
    ]
    cluster = preemption_cluster(pods, rules=rules_of(minor, gates))
    assert victims(cluster, tried(cluster, preemptor(2))).keys() == where


def test_a_pod_of_a_group_goes_if_it_is_given() -> None:
    pods = [in_group(running("worker", "a", priority=1, cpu=4, started=1, app="web"))]
    cluster = preemption_cluster(pods, rules=rules_of(37, {"GenericWorkload": True}))
    assert victims(cluster, tried(cluster, preemptor(2), ["worker"])) == {"a": (["worker"], 0)}


def test_the_number_of_passes_does_not_grow_with_the_nodes() -> None:
    def passes(nodes: str) -> int:
        pods = [
            running(f"{name}-{number}", name, priority=1, cpu=1, started=number, app="web")
            for name in nodes
            for number in range(4)
        ]
        cluster, count = preemption_cluster(pods, nodes=nodes), 0
        judge = judging(cluster, preemptor(2))

        def counting(view: NodeView) -> Verdicts:
            nonlocal count
            count += 1
            return judge(view)

        found = dry_run(cluster, preemptor(2), cluster.view(None).at(np.arange(len(nodes))), counting)
        assert len(found.candidates) == len(nodes)
        return count

    assert passes("abcdefgh") == passes("a") == 5


def test_reasons_are_counted_by_node() -> None:
    failed = [(unschedulable("Too many pods"), 2), (unschedulable("Insufficient cpu", "Too many pods"), 1)]
    assert fit_error(failed) == "0/3 nodes are available: 1 Insufficient cpu, 3 Too many pods."

"""Which pods a budget protects, and which of them are more than it allows."""

from collections.abc import Mapping

import numpy as np
from msgspec import structs

from extender_service.cluster.owners.disruption_budgets import disruption_budget, violating
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.types.core import LabelSelector, ObjectMeta, SelectorRequirement
from extender_service.kube.types.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from tests.support.objects import make_node, make_pod

UNTIERED = LabelSelector(match_expressions=(SelectorRequirement("tier", "DoesNotExist"),))


def violations(
    pods: Mapping[str, dict[str, str]],
    budgets: list[tuple[LabelSelector, int, list[str]]],
    groups: list[int],
    *,
    only_first: bool = False,
) -> list[bool]:
    """Which of some pods, by name and labels, violate budgets of (selector, disruptions allowed, disrupted pods)."""
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    for name, labels in pods.items():
        pod = make_pod(name, "a")
        cluster.apply_pod(structs.replace(pod, metadata=structs.replace(pod.metadata, labels=labels)))
    read = [
        disruption_budget(
            PodDisruptionBudget(
                ObjectMeta(name=str(number), namespace="default"),
                PodDisruptionBudgetSpec(selector),
                PodDisruptionBudgetStatus(allowed, dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")),
            )
        )
        for number, (selector, allowed, disrupted) in enumerate(budgets)
    ]
    protecting = [item for item in read if item is not None]
    slots = np.arange(len(pods))
    found = violating(protecting, cluster.pods, slots, np.array(groups, np.intp), only_first=only_first)
    violates: list[bool] = found.tolist()
    return violates


def test_a_budget_allows_so_many_of_each_group() -> None:
    web = {"app": "web"}
    pods = {"one": web, "other": {"app": "db"}, "two": web, "three": web, "four": web}
    budget: tuple[LabelSelector, int, list[str]] = (LabelSelector({"app": "web"}), 1, [])
    assert violations(pods, [budget], [5, 5, 5, 2, 2]) == [False, False, True, False, True]


def test_pods_of_several_budgets_count_in_each() -> None:
    pods = {"one": {"app": "web", "zone": "x"}, "two": {"app": "web"}, "three": {"zone": "x"}}
    budgets: list[tuple[LabelSelector, int, list[str]]] = [
        (LabelSelector({"app": "web"}), 2, []),
        (LabelSelector({"zone": "x"}), 1, []),
    ]
    assert violations(pods, budgets, [0, 0, 0]) == [False, False, True]


def test_where_only_the_first_violated_budget_counts_a_pod_leaves_the_others_as_they_are() -> None:
    pods = {"one": {"app": "web", "zone": "x"}, "two": {"zone": "x"}, "three": {"zone": "x"}}
    budgets: list[tuple[LabelSelector, int, list[str]]] = [
        (LabelSelector({"app": "web"}), 0, []),
        (LabelSelector({"zone": "x"}), 1, []),
    ]
    assert violations(pods, budgets, [0, 0, 0]) == [True, True, True]
    assert violations(pods, budgets, [0, 0, 0], only_first=True) == [True, False, True]
    assert violations(pods, budgets, [0, 1, 1], only_first=True) == [True, False, True]
    assert violations(pods, budgets[::-1], [0, 0, 0], only_first=True) == [True, True, True]


def test_a_pod_that_was_disrupted_already_does_not_count() -> None:
    pods = {"one": {"app": "web"}, "two": {"app": "web"}, "three": {"app": "web"}}
    assert violations(pods, [(LabelSelector({"app": "web"}), 1, ["one"])], [0, 0, 0]) == [False, False, True]


def test_a_pod_without_labels_is_in_no_budget() -> None:
    pods: dict[str, dict[str, str]] = {"labelled": {"app": "web"}, "bare": {}, "tiered": {"tier": "web"}}
    assert violations(pods, [(UNTIERED, 0, [])], [0, 0, 0]) == [True, False, False]


def test_an_empty_selector_protects_nothing() -> None:
    assert violations({"one": {"app": "web"}}, [(LabelSelector(), 0, [])], [0]) == [False]


def test_each_group_has_all_of_each_budget() -> None:
    both = {"app": "web", "zone": "x"}
    budgets: list[tuple[LabelSelector, int, list[str]]] = [
        (LabelSelector({"app": "web"}), 1, []),
        (LabelSelector({"zone": "x"}), 1, []),
    ]
    pods = {str(number): both for number in range(4)}
    assert violations(pods, budgets, [2, 2, 0, 0]) == [False, True, False, True]


def test_without_pods_that_it_protects_a_budget_is_never_violated() -> None:
    assert violations({"one": {"app": "web"}}, [(LabelSelector({"app": "db"}), 0, [])], [0]) == [False]


def test_a_pod_without_labels_is_in_no_budget_though_it_was_the_first_to_come() -> None:
    pods: dict[str, dict[str, str]] = {"bare": {}, "labelled": {"app": "web"}}
    assert violations(pods, [(UNTIERED, 0, [])], [0, 0]) == [False, True]

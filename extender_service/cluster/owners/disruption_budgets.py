"""Which pods a PodDisruptionBudget protects."""

from collections.abc import Collection

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.pods.pod_table import PodTable
from extender_service.cluster.selection.label_sets import LabelSet, PodSelector
from extender_service.cluster.structures.ranks import order_by, rank_in_group
from extender_service.kube.parsing.selectors import EVERYTHING, SelectorError, parse_label_selector
from extender_service.kube.types.policy import PodDisruptionBudget


class DisruptionBudget(msgspec.Struct, frozen=True):
    """How many of some pods may still be disrupted; `disrupted` are the names of those that were counted already."""

    pods: PodSelector
    allowed: int
    disrupted: frozenset[str]


def disruption_budget(item: PodDisruptionBudget) -> DisruptionBudget | None:
    """Read a budget; None for one that protects no pod. An empty selector and an invalid one do not."""
    try:
        selector = parse_label_selector(item.spec.selector)
    except SelectorError:
        return None
    if selector == EVERYTHING or selector.nothing:
        return None
    namespaces = frozenset((item.metadata.namespace,))
    return DisruptionBudget(
        PodSelector(namespaces, selector), item.status.disruptions_allowed, frozenset(item.status.disrupted_pods)
    )


def violating(
    budgets: Collection[DisruptionBudget],
    pods: PodTable,
    slots: NDArray[np.intp],
    groups: NDArray[np.intp],
    *,
    only_first: bool = False,
) -> NDArray[np.bool_]:
    """Return which pods, disrupted in this order, are more than a budget allows (filterPodsWithPDBViolation).

    The pods of a group stand next to each other. Each group is counted separately, against the whole budget. A pod in
    several budgets counts against each; with `only_first`, not against those after the first that it violates.
    """
    violates = np.zeros(len(slots), np.bool_)
    protections = _by_label_set(budgets, pods)
    if protections is None:
        return violates
    first, numbers = protections
    # One entry for each budget that a pod is in.
    label_sets = pods.label_set[slots]
    counts = first[label_sets + 1] - first[label_sets]
    pod = np.repeat(np.arange(len(slots)), counts)
    budget = numbers[np.arange(len(pod)) + np.repeat(first[label_sets] - np.cumsum(counts) + counts, counts)]
    counted = np.ones(len(pod), np.bool_)
    for number, item in enumerate(budgets):
        if item.disrupted:
            protected = np.flatnonzero(budget == number)
            counted[protected] = [pods[slot].name not in item.disrupted for slot in slots[pod[protected]].tolist()]
    pod, budget = pod[counted], budget[counted]
    order = order_by((budget, groups[pod]))
    pod, budget = pod[order], budget[order]
    allowed = np.array([item.allowed for item in budgets], np.int64)
    if not only_first or not (np.bincount(pod) > 1).any():
        ranks = rank_in_group(groups[pod] * len(budgets) + budget)
        violates[pod[ranks >= allowed[budget]]] = True
        return violates
    for number in range(len(budgets)):
        members = pod[budget == number]
        members = members[~violates[members]]
        violates[members[rank_in_group(groups[members]) >= allowed[number]]] = True
    return violates


def _by_label_set(
    budgets: Collection[DisruptionBudget], pods: PodTable
) -> tuple[NDArray[np.intp], NDArray[np.intp]] | None:
    """The numbers of the budgets that protect each label set, one set after the other, and where each begins; None if
    there are none."""
    sets: list[NDArray[np.intp]] = []
    for budget in budgets:
        matching = pods.label_sets.matching((budget.pods,))
        # A pod without labels is in no budget, whatever the selector.
        for namespace in budget.pods.namespaces or ():
            unlabelled = pods.label_sets.number_of(LabelSet(namespace, {}))
            if unlabelled >= 0:
                matching[unlabelled] = False
        sets.append(np.flatnonzero(matching))
    lengths = [len(numbers) for numbers in sets]
    if not any(lengths):
        return None
    label_sets, numbers = np.concatenate(sets), np.repeat(np.arange(len(sets)), lengths)
    order = order_by((label_sets,))
    return np.searchsorted(label_sets[order], np.arange(pods.label_sets.size + 1)), numbers[order]

"""Which pods a PodDisruptionBudget protects."""

from collections.abc import Collection

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.label_sets import PodSelector
from extender_service.cluster.pods import PodTable
from extender_service.kube.policy import PodDisruptionBudget
from extender_service.kube.selectors import EVERYTHING, SelectorError, parse_label_selector


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
    budgets: Collection[DisruptionBudget], pods: PodTable, slots: NDArray[np.intp], groups: NDArray[np.intp]
) -> NDArray[np.bool_]:
    """Tell which of some pods, disrupted in this order, are more than a budget allows (filterPodsWithPDBViolation).

    The pods of a group, which are next to each other, are counted for themselves: each group has all of the budget.
    """
    violates = np.zeros(len(slots), np.bool_)
    if not budgets or not len(slots):
        return violates
    label_sets = pods.label_set[slots]
    # A pod without labels is in no budget, whatever the selector.
    has_labels = np.array([bool(pods.label_sets[number].labels) for number in label_sets.tolist()], np.bool_)
    for budget in budgets:
        protected = pods.label_sets.matching((budget.pods,))[label_sets] & has_labels
        if budget.disrupted:
            protected &= [pods[slot].name not in budget.disrupted for slot in slots.tolist()]
        counted = np.flatnonzero(protected)
        violates[counted[rank_in_group(groups[counted]) >= budget.allowed]] = True
    return violates


def rank_in_group(groups: NDArray[np.intp]) -> NDArray[np.intp]:
    """Number the members of each group from 0; equal groups are next to each other."""
    if not len(groups):
        return np.zeros(0, np.intp)
    starts = np.flatnonzero(np.concatenate(([True], groups[1:] != groups[:-1])))
    lengths = np.diff(np.append(starts, len(groups)))
    ranks: NDArray[np.intp] = np.arange(len(groups)) - np.repeat(starts, lengths)
    return ranks

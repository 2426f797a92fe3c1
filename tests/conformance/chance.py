"""What kube-scheduler leaves to chance, and where it panics: a difference that follows from it is no fault, and is
counted apart."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from extender_service.cluster.owners.disruption_budgets import DisruptionBudget, disruption_budget
from extender_service.config.rules import Rules
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.types.policy import PodDisruptionBudget
from tests.conformance.cases import Case

Item = dict[str, Any]

_BUDGET = "PodDisruptionBudget"
_decoder = Decoder(PodDisruptionBudget)


class Chance(NamedTuple):
    """A reason why the reference may answer otherwise the next time, or not at all, for cases in which it `arises`.

    `concerns` is a regular expression for how the differences begin that it explains. In the releases before it, `of`
    does not hold.
    """

    reason: str
    concerns: str
    arises: Callable[[Case], bool]
    of: Callable[[Rules], bool] = lambda _: True


def reasons(case: Case, differences: Sequence[str], rules: Rules) -> list[str]:
    """Return the reasons each of which explains all the differences of a case."""
    return [
        chance.reason
        for chance in LEFT_TO_CHANCE
        if differences
        and chance.of(rules)
        and all(re.match(chance.concerns, each) for each in differences)
        and chance.arises(case)
    ]


def _many_victims_of_which_some_are_alike(case: Case) -> bool:
    return any(len(pods) > _SORTED_STABLY and _some_are_alike(pods) for pods in _pods_by_node(case))


def _some_are_alike(pods: Sequence[Item]) -> bool:
    importance = Counter((_priority(pod), pod.get("status", {}).get("startTime")) for pod in pods)
    return max(importance.values()) > 1


def _victims_that_have_not_started(case: Case) -> bool:
    now = datetime.now(UTC).isoformat()
    for pods in _pods_by_node(case):
        # As texts, times of this form are in their order.
        waiting = Counter(_priority(pod) for pod in pods if (pod.get("status", {}).get("startTime") or now) >= now)
        if max(waiting.values(), default=0) > 1:
            return True
    return False


def _victims_of_several_budgets(case: Case) -> bool:
    items = [msgspec.json.decode(raw) for raw in case.objects]
    read = [_decoder.decode(raw) for raw, item in zip(case.objects, items, strict=True) if item["kind"] == _BUDGET]
    budgets = [budget for budget in map(disruption_budget, read) if budget is not None]
    pods = [item["metadata"] for item in items if item["kind"] == "Pod" and item["spec"].get("nodeName")]
    return any(
        sum(budget.pods.selector.matches(pod.get("labels", {})) for budget in budgets if _shares(budget, pod)) > 1
        for pod in pods
    )


def _shares(budget: DisruptionBudget, metadata: Item) -> bool:
    # A case may leave out the namespace of either: it is default then.
    names = {name or "default" for name in budget.pods.namespaces or ()}
    return metadata.get("namespace", "default") in names


def _drivers_that_must_be_installed(case: Case) -> bool:
    drivers = [item for item in _of_kind(case, "CSIDriver") if item["spec"].get("preventPodSchedulingIfMissing")]
    return len(drivers) > 1


def _class_in_an_annotation_only(case: Case) -> bool:
    return any(
        _BETA_CLASS in claim["metadata"].get("annotations", {}) and claim["spec"].get("storageClassName") is None
        for claim in _of_kind(case, "PersistentVolumeClaim")
    )


def _capacity_left_out(case: Case) -> bool:
    return any(item.get("capacity") is None for item in _of_kind(case, "CSIStorageCapacity"))


def _several_capacities_of_a_class(case: Case) -> bool:
    capacities = defaultdict(set)
    for item in _of_kind(case, "CSIStorageCapacity"):
        capacities[item["storageClassName"]].add(item.get("capacity"))
    return any(len(of_class) > 1 for of_class in capacities.values())


def _of_kind(case: Case, kind: str) -> list[Item]:
    items: list[Item] = [msgspec.json.decode(raw) for raw in case.objects]
    return [item for item in items if item["kind"] == kind]


def _priority(pod: Item) -> int:
    return int(pod.get("spec", {}).get("priority") or 0)


def _pods_by_node(case: Case) -> Sequence[Sequence[Item]]:
    pods: defaultdict[str, list[Item]] = defaultdict(list)
    for raw in case.objects:
        item = msgspec.json.decode(raw)
        if item["kind"] == "Pod" and item.get("spec", {}).get("nodeName"):
            pods[item["spec"]["nodeName"]].append(item)
    return list(pods.values())


_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_MISSING = r"\['\S+ CSI driver is not installed on the node'\]"
_ALL_MISSING = (
    r"\['preemption: \d+/\d+ nodes are available: (\d+ \S+ CSI driver is not installed on the node[,.] ?)+'\]"
)
# Go's sort.Slice keeps the order of equal elements up to this length.
_SORTED_STABLY = 12
LEFT_TO_CHANCE = [
    Chance(
        "of more than 12 victims on a node, those of the same priority and start time have no defined order, since "
        "sort.Slice is not stable (SelectVictimsOnNode in plugins/defaultpreemption/default_preemption.go)",
        r"preempt\.",
        _many_victims_of_which_some_are_alike,
    ),
    Chance(
        "of victims of the same priority that have not started, each counts as started when it is compared, before one "
        "that starts in the future (GetPodStartTime in pkg/scheduler/util/utils.go)",
        r"preempt\.",
        _victims_that_have_not_started,
    ),
    Chance(
        "of several budgets that a victim is in, the first that it violates is the last that it counts against, and "
        "they are listed in random order (FilterVictimsWithPDBViolation in framework/preemption/util.go)",
        r"preempt\.",
        _victims_of_several_budgets,
        lambda rules: rules.first_violated_budget_counts,
    ),
    Chance(
        "of several drivers of a pod that are not installed on a node, the first in the order of a Go map is the "
        "reason (Filter in plugins/nodevolumelimits/csi.go, from 1.35 on)",
        rf"filter\w*\..*\.reasons: ours {_MISSING}, reference {_MISSING}"
        rf"|preempt\.reasons: ours {_ALL_MISSING}, reference {_ALL_MISSING}",
        _drivers_that_must_be_installed,
    ),
    Chance(
        "kube-scheduler panics when it scores a claim whose storage class is only in the beta annotation; here, the "
        "claim is scored by that class (Score in plugins/volumebinding/volume_binding.go, from 1.37 on)",
        r"the reference could not evaluate it: .*nil pointer dereference",
        _class_in_an_annotation_only,
    ),
    Chance(
        "kube-scheduler panics when it scores by a CSIStorageCapacity with maximumVolumeSize but no capacity; here, "
        "that is 0 (Score in plugins/volumebinding/volume_binding.go, from 1.37 on)",
        r"the reference could not evaluate it: .*nil pointer dereference",
        _capacity_left_out,
    ),
    Chance(
        "of several CSIStorageCapacity objects that are enough for a claim on a node, the first of a Go map gives the "
        "score (hasEnoughCapacity in plugins/volumebinding/binder.go, from 1.37 on)",
        r"(raw|score)\.VolumeBinding\.|total\.",
        _several_capacities_of_a_class,
        lambda rules: rules.scores_storage_capacity,
    ),
]

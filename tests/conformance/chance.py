"""What kube-scheduler leaves to chance, and where it panics: a difference that follows from it is no fault, and is
counted apart."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from extender_service.cluster.owners.disruption_budgets import DisruptionBudget, disruption_budget
from extender_service.cluster.pods.pod_volumes import ClaimUse, pod_volumes
from extender_service.config.rules import Rules
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.parsing.quantities import parse_quantity, whole_value
from extender_service.kube.types.core import Pod, RawQuantity
from extender_service.kube.types.keys import Key
from extender_service.kube.types.policy import PodDisruptionBudget
from extender_service.kube.types.storage import SELECTED_NODE_ANNOTATION, CSIStorageCapacity, PersistentVolumeClaim
from tests.conformance.cases import Case

T = TypeVar("T", PodDisruptionBudget, PersistentVolumeClaim, CSIStorageCapacity)
Item = dict[str, Any]

_decoders: Mapping[type, Decoder[Any]] = {
    kind: Decoder(kind) for kind in (PodDisruptionBudget, PersistentVolumeClaim, CSIStorageCapacity)
}
_pods = Decoder(Pod)
_DEFAULT_NAMESPACE = "default"


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


def _not_started_beside_the_future(case: Case) -> bool:
    now = datetime.now(UTC).isoformat()
    pods = [pod for on_node in _pods_by_node(case) for pod in on_node]
    starts = [(_priority(pod), pod.get("status", {}).get("startTime")) for pod in pods]
    waiting = {priority for priority, start in starts if start is None}
    return any(start is not None and start >= now and priority in waiting for priority, start in starts)


def _victims_of_several_budgets(case: Case) -> bool:
    read = map(disruption_budget, _decoded(case, PodDisruptionBudget))
    budgets = [budget for budget in read if budget is not None]
    pods = [item["metadata"] for item in _of_kind(case, "Pod") if item["spec"].get("nodeName")]
    return any(
        sum(budget.pods.selector.matches(pod.get("labels", {})) for budget in budgets if _shares(budget, pod)) > 1
        for pod in pods
    )


def _shares(budget: DisruptionBudget, metadata: Item) -> bool:
    # A case may leave out the namespace of either: it is default then.
    names = {name or _DEFAULT_NAMESPACE for name in budget.pods.namespaces or ()}
    return metadata.get("namespace", _DEFAULT_NAMESPACE) in names


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


def _several_capacities_for_the_last_claim(case: Case) -> bool:
    """Return whether several are enough for the last claim of a class: what is left for that one counts."""
    capacities = _decoded(case, CSIStorageCapacity)
    for class_name, last in _last_claims(case).items():
        of_class = [each for each in capacities if each.storage_class_name == class_name]
        if len({each.capacity for each in of_class if _is_enough(each, last)}) > 1:
            return True
    return False


def _last_claims(case: Case) -> Mapping[str, PersistentVolumeClaim]:
    """Return by class the claim of the pod for which a volume is made last.

    First come claims with a selected node, in the pod's order, then the others by size.
    """
    known = {_key(each.metadata.namespace, each.metadata.name): each for each in _decoded(case, PersistentVolumeClaim)}
    uses = [use for use in pod_volumes(_pods.decode(case.pod)).attachable if isinstance(use, ClaimUse)]
    claims = [known[key] for use in uses if (key := _key(*use.key)) in known]
    waiting = [claim for claim in claims if claim.request is not None and not claim.spec.volume_name]
    return {claim.class_name: claim for claim in sorted(waiting, key=_turn)}


def _turn(claim: PersistentVolumeClaim) -> tuple[bool, int]:
    has_no_node = SELECTED_NODE_ANNOTATION not in claim.metadata.annotations
    return has_no_node, parse_quantity(claim.request or 0) if has_no_node else 0


def _is_enough(capacity: CSIStorageCapacity, claim: PersistentVolumeClaim) -> bool:
    most = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return most is not None and _bytes(most) >= _bytes(claim.request or 0)


def _bytes(amount: RawQuantity) -> int:
    return whole_value(parse_quantity(amount))


def _key(namespace: str, name: str) -> Key:
    return namespace or _DEFAULT_NAMESPACE, name


def _decoded(case: Case, kind: type[T]) -> list[T]:
    """Return the objects of a kind, decoded as the program does."""
    return [_decoders[kind].decode(raw) for raw in case.objects if msgspec.json.decode(raw)["kind"] == kind.__name__]


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
        "of two nodes, kube-scheduler prefers one whose victim starts in the future to one whose victim has not "
        "started, which counts as started now; the oracle does not (GetPodStartTime in pkg/scheduler/util/utils.go)",
        r"the reference could not evaluate it: preemption picked node",
        _not_started_beside_the_future,
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
        "of several CSIStorageCapacity objects that are enough for the last claim of a class, the first of a Go map "
        "gives the score (hasEnoughCapacity in plugins/volumebinding/binder.go, from 1.37 on)",
        r"(raw|score)\.VolumeBinding\.|total\.",
        _several_capacities_for_the_last_claim,
        lambda rules: rules.scores_storage_capacity,
    ),
]

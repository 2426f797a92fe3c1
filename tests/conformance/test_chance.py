"""What the reference leaves to chance does not count as a difference, and all else does."""

from typing import Any

import msgspec
import pytest

from extender_service.config.rules import rules_of
from tests.conformance import chance
from tests.conformance.cases import Case


def case(*items: dict[str, Any]) -> Case:
    objects = [
        msgspec.json.encode({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"item-{number}"}, **item})
        for number, item in enumerate(items)
    ]
    return Case("case-1-1", msgspec.Raw(b"{}"), [msgspec.Raw(item) for item in objects])


def victim(start: str | None, priority: int = 0, node: str = "a") -> dict[str, Any]:
    return {"spec": {"nodeName": node, "priority": priority}, "status": {} if start is None else {"startTime": start}}


DISTINCT = [victim(f"2024-01-01T00:00:{second:02}Z") for second in range(12)]
ORDER = "preempt.candidates: ours ['x', 'y'], reference ['y', 'x']"


def test_of_many_victims_those_that_are_alike_come_in_any_order() -> None:
    [reason] = chance.reasons(case(*DISTINCT, DISTINCT[0]), [ORDER], rules_of(31))
    assert "sort.Slice is not stable" in reason


@pytest.mark.parametrize(
    "pods",
    [
        (*DISTINCT, victim("2024-01-01T00:01:00Z")),
        (*DISTINCT, victim("2024-01-01T00:00:00Z", priority=1)),
        (*DISTINCT, victim("2024-01-01T00:00:00Z", node="b")),
        (*DISTINCT[1:], DISTINCT[1]),
    ],
    ids=["distinct", "other priority", "other node", "few"],
)
def test_else_their_order_is_defined(pods: tuple[dict[str, Any], ...]) -> None:
    assert chance.reasons(case(*pods), [ORDER], rules_of(31)) == []


@pytest.mark.parametrize("start", [None, "2999-01-01T00:00:00Z"], ids=["not started", "in the future"])
def test_a_victim_that_has_not_started_counts_as_started_now(start: str | None) -> None:
    [reason] = chance.reasons(case(victim(None), victim(start)), [ORDER], rules_of(31))
    assert "counts as started when it is compared" in reason
    assert chance.reasons(case(victim(None), victim(start, priority=1)), [ORDER], rules_of(31)) == []
    assert chance.reasons(case(victim(None), DISTINCT[0]), [ORDER], rules_of(31)) == []


def test_of_two_nodes_the_oracle_does_not_judge_one_whose_victim_starts_in_the_future() -> None:
    picked = 'the reference could not evaluate it: preemption picked node "b", not one of ["a"]'
    future = victim("2999-01-01T00:00:00Z", node="b")
    [reason] = chance.reasons(case(victim(None), future), [picked], rules_of(31))
    assert "prefers one whose victim starts in the future" in reason
    assert chance.reasons(case(victim(None, priority=1), future), [picked], rules_of(31)) == []
    assert chance.reasons(case(victim(None), victim("2024-01-01T00:00:00Z", node="b")), [picked], rules_of(31)) == []
    assert chance.reasons(case(DISTINCT[0], future), [picked], rules_of(31)) == []


def test_chance_explains_all_differences_of_a_case_or_none() -> None:
    total = "total.a: ours 1, reference 2"
    assert chance.reasons(case(*DISTINCT, DISTINCT[0]), [ORDER, total], rules_of(31)) == []
    assert chance.reasons(case(*DISTINCT, DISTINCT[0]), [], rules_of(31)) == []


def budget(app: str) -> dict[str, Any]:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app},
        "spec": {"selector": {"matchLabels": {"app": app}}},
    }


def test_from_1_37_on_budgets_that_share_a_victim_count_in_any_order() -> None:
    shared = {"metadata": {"name": "shared", "labels": {"app": "x"}}, **victim("2024-01-01T00:00:00Z")}
    [reason] = chance.reasons(case(shared, budget("x"), budget("x")), [ORDER], rules_of(37))
    assert "listed in random order" in reason
    assert chance.reasons(case(shared, budget("x"), budget("x")), [ORDER], rules_of(36)) == []
    assert chance.reasons(case(shared, budget("x"), budget("y")), [ORDER], rules_of(37)) == []


NEWEST = rules_of(37)


def storage(kind: str, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> msgspec.Raw:
    item = {"kind": kind, "metadata": {"name": "x", "annotations": annotations or {}}, "spec": spec}
    return msgspec.Raw(msgspec.json.encode(item))


def storage_case(*objects: msgspec.Raw) -> Case:
    return Case("case-1-1", msgspec.Raw(b"{}"), list(objects))


def test_of_several_missing_drivers_any_may_be_named() -> None:
    insists = storage("CSIDriver", {"preventPodSchedulingIfMissing": True})
    other = "filter.a.reasons: ours ['x CSI driver is not installed on the node'], reference ['{}']"
    named = other.format("y CSI driver is not installed on the node")
    [reason] = chance.reasons(
        storage_case(insists, insists), [named, named.replace("filter.", "filterByPlugin.P.")], NEWEST
    )
    assert "Go map" in reason
    assert chance.reasons(storage_case(insists, storage("CSIDriver", {})), [named], NEWEST) == []
    assert (
        chance.reasons(storage_case(insists, insists), [other.format("node(s) exceed max volume count")], NEWEST) == []
    )


def test_preemption_counts_the_missing_drivers_by_whichever_is_named() -> None:
    insists = storage("CSIDriver", {"preventPodSchedulingIfMissing": True})
    missing = "{} x CSI driver is not installed on the node, {} y CSI driver is not installed on the node."
    texts = [f"['preemption: 0/6 nodes are available: {missing.format(*counts)}']" for counts in ((2, 4), (3, 3))]
    counted = f"preempt.reasons: ours {texts[0]}, reference {texts[1]}"
    [reason] = chance.reasons(storage_case(insists, insists), [counted], NEWEST)
    assert "Go map" in reason
    other = counted.replace("2 x CSI driver is not installed on the node", "2 Insufficient cpu")
    assert chance.reasons(storage_case(insists, insists), [other], NEWEST) == []


def test_a_panic_is_known_where_a_class_is_in_an_annotation_only() -> None:
    panic = "the reference could not evaluate it: panic: invalid memory address or nil pointer dereference"
    beta = {"volume.beta.kubernetes.io/storage-class": "x"}
    [reason] = chance.reasons(storage_case(storage("PersistentVolumeClaim", {}, beta)), [panic], NEWEST)
    assert "panics" in reason
    for claim in (
        storage("PersistentVolumeClaim", {"storageClassName": "x"}, beta),
        storage("PersistentVolumeClaim", {}),
    ):
        assert chance.reasons(storage_case(claim), [panic], NEWEST) == []


def test_kube_scheduler_panics_at_a_storage_capacity_without_a_capacity() -> None:
    panic = (
        "the reference could not evaluate it: panic: runtime error: invalid memory address or nil pointer dereference"
    )
    published = {"kind": "CSIStorageCapacity", "maximumVolumeSize": "2Gi"}
    [reason] = chance.reasons(case(published), [panic], rules_of(37))
    assert "CSIStorageCapacity" in reason
    assert not chance.reasons(case(published | {"capacity": "1Gi"}), [panic], rules_of(37))
    assert not chance.reasons(case(published), [panic, ORDER], rules_of(37))


def capacity(class_name: str, amount: str, **others: str) -> dict[str, Any]:
    return {"kind": "CSIStorageCapacity", "storageClassName": class_name, "capacity": amount, **others}


def claim(name: str, size: str, class_name: str = "x", annotations: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"storageClassName": class_name, "resources": {"requests": {"storage": size}}},
    }


def with_all_claims(*items: dict[str, Any]) -> Case:
    names = [item["metadata"]["name"] for item in items if item["kind"] == "PersistentVolumeClaim"]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    pod = msgspec.json.encode({"metadata": {"name": "p"}, "spec": {"volumes": volumes}})
    return msgspec.structs.replace(case(*items), pod=msgspec.Raw(pod))


SCORES = [f"{what}: ours 40, reference 97" for what in ("raw.VolumeBinding.a", "score.VolumeBinding.a", "total.a")]


def test_of_several_capacities_that_are_enough_any_gives_the_score() -> None:
    two = with_all_claims(claim("c", "1Gi"), capacity("x", "5Gi"), capacity("x", "100Gi"))
    [reason] = chance.reasons(two, SCORES, NEWEST)
    assert "CSIStorageCapacity" in reason
    assert not chance.reasons(two, SCORES, rules_of(36))
    assert not chance.reasons(two, ["raw.ImageLocality.a: ours 1, reference 2"], NEWEST)
    for others in (
        (capacity("x", "5Gi"), capacity("y", "100Gi")),
        (capacity("x", "5Gi"), capacity("x", "5Gi")),
        (capacity("x", "5Gi", maximumVolumeSize="1Mi"), capacity("x", "100Gi")),
    ):
        assert not chance.reasons(with_all_claims(claim("c", "1Gi"), *others), SCORES, NEWEST)


def test_of_several_capacities_the_last_claim_of_a_class_decides_which_are_enough() -> None:
    capacities = (capacity("x", "5Gi"), capacity("x", "100Gi"))
    large, small = claim("large", "10Gi"), claim("small", "1Gi")
    for claims in ((large, small), (small, large)):
        assert not chance.reasons(with_all_claims(*claims, *capacities), SCORES, NEWEST)
    # Claims with a selected node come before the others, in the pod's order.
    selected = claim("large", "10Gi", annotations={"volume.kubernetes.io/selected-node": "a"})
    assert chance.reasons(with_all_claims(selected, small, *capacities), SCORES, NEWEST)
    other = claim("large", "10Gi", "y")
    assert chance.reasons(with_all_claims(other, small, *capacities), SCORES, NEWEST)

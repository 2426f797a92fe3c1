"""Taints, node selectors and affinity, cordoned and deleted nodes."""

from collections.abc import Sequence

from tests.e2e.scheduler.side_by_side.steps import Scenario, change, create, delete
from tests.e2e.support.objects import Object, node, pod

_DEDICATED = {"key": "dedicated", "value": "yes", "effect": "NoSchedule"}
_TOLERATES = {"key": "dedicated", "operator": "Exists"}


def _in(key: str, *values: str) -> Object:
    return {"key": key, "operator": "In", "values": list(values)}


def _required(*, fields: Sequence[Object] = (), labels: Sequence[Object] = ()) -> Object:
    term = {"matchFields": list(fields), "matchExpressions": list(labels)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def a_taint_goes() -> Scenario:
    return Scenario(
        [
            create(node("a", taints=[_DEDICATED])),
            create(pod("p")),
            change("Node", "a", {"metadata": {"labels": {"unrelated": "yes"}}}),
            change("Node", "a", {"spec": {"taints": None}}),
        ]
    )


def a_pod_learns_to_tolerate() -> Scenario:
    return Scenario(
        [
            create(node("a", taints=[_DEDICATED])),
            create(pod("p")),
            change("Pod", "p", {"metadata": {"annotations": {"unrelated": "yes"}}}),
            change("Pod", "p", {"spec": {"tolerations": [_TOLERATES]}}),
        ]
    )


def taints_that_only_repel() -> Scenario:
    soft = {**_DEDICATED, "effect": "PreferNoSchedule"}
    return Scenario([create(node("a", cpu="8", taints=[soft]), node("b")), create(pod("p")), create(pod("q"))])


def taints_that_also_evict() -> Scenario:
    evicts = {**_DEDICATED, "effect": "NoExecute"}
    return Scenario(
        [
            create(node("a", taints=[evicts])),
            create(pod("p")),
            create(pod("tolerates", tolerations=[_TOLERATES])),
        ]
    )


def cordoned_and_uncordoned() -> Scenario:
    return Scenario(
        [
            create(node("a")),
            change("Node", "a", {"spec": {"unschedulable": True}}),
            create(pod("p")),
            create(pod("tolerates", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])),
            change("Node", "a", {"spec": {"unschedulable": None}}),
        ]
    )


def a_selector_waits_for_a_label() -> Scenario:
    return Scenario(
        [
            create(node("a"), node("b")),
            create(pod("p", nodeSelector={"disk": "ssd"})),
            change("Node", "b", {"metadata": {"labels": {"disk": "hdd"}}}),
            change("Node", "b", {"metadata": {"labels": {"disk": "ssd"}}}),
            change("Node", "b", {"metadata": {"labels": {"disk": None}}}),
            create(pod("q", nodeSelector={"disk": "ssd"})),
        ]
    )


def affinity_to_a_missing_node() -> Scenario:
    missing = _required(fields=[_in("metadata.name", "missing")])
    return Scenario(
        [
            create(node("a"), node("b")),
            create(pod("p", affinity=missing)),
            create(node("c")),
            create(node("missing")),
        ]
    )


def affinity_that_contradicts_itself() -> Scenario:
    """PreFilter rejects the pod on all nodes."""
    fields = [_in("metadata.name", "a"), _in("metadata.name", "b")]
    return Scenario(
        [
            create(node("a"), node("b")),
            create(pod("p", affinity=_required(fields=fields))),
            create(node("c")),
            change("Node", "c", {"metadata": {"labels": {"disk": "ssd"}}}),
        ]
    )


def affinity_to_a_node_that_is_full() -> Scenario:
    here = _required(fields=[_in("metadata.name", "a")])
    return Scenario(
        [
            create(node("a", cpu="1"), node("b")),
            create(pod("first", requests={"cpu": "1"}, affinity=here)),
            create(pod("second", requests={"cpu": "1"}, affinity=here)),
            delete("Pod", "first"),
        ]
    )


def affinity_is_weighed() -> Scenario:
    preferred = [
        {"weight": 10, "preference": {"matchExpressions": [_in("disk", "ssd")]}},
        {"weight": 90, "preference": {"matchExpressions": [_in("zone", "z2")]}},
    ]
    wanted = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return Scenario(
        [
            create(node("a", labels={"disk": "ssd"}), node("b", labels={"zone": "z2"}), node("c")),
            create(pod("p", affinity=wanted)),
        ]
    )


def a_node_is_deleted_under_waiting_pods() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1"), node("b", cpu="1")),
            create(pod("p", requests={"cpu": "2"})),
            delete("Node", "b"),
            create(pod("q", requests={"cpu": "2"})),
            create(node("b", cpu="2")),
        ]
    )


def a_node_comes_back_without_its_pods() -> Scenario:
    return Scenario(
        [
            create(node("a", cpu="1")),
            create(pod("p", requests={"cpu": "1"})),
            delete("Node", "a"),
            create(node("a", cpu="1")),
            create(pod("q", requests={"cpu": "1"})),
        ]
    )


def selectors_with_every_operator() -> Scenario:
    def wants(operator: str, *values: str) -> Object:
        return _required(labels=[{"key": "cores", "operator": operator, **({"values": values} if values else {})}])

    return Scenario(
        [
            create(node("a", labels={"cores": "4"}), node("b", labels={"cores": "16"}), node("c", cpu="16")),
            create(pod("greater", affinity=wants("Gt", "8"))),
            create(pod("less", affinity=wants("Lt", "8"))),
            create(pod("absent", affinity=wants("DoesNotExist"))),
            create(pod("other", affinity=wants("NotIn", "4", "16"))),
            create(pod("none", affinity=wants("Gt", "100"))),
            change("Node", "a", {"metadata": {"labels": {"cores": "128"}}}),
        ]
    )

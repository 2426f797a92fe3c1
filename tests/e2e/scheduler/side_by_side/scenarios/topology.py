"""Affinity between pods, and topology spread."""

from collections.abc import Mapping
from typing import Any

from tests.e2e.scheduler.side_by_side.steps import Scenario, change, create, delete, end
from tests.e2e.support.objects import Object, node, pod

_HOST = "kubernetes.io/hostname"
_ZONE = "topology.kubernetes.io/zone"
_WEB = {"app": "web"}


def _zoned(name: str, zone: str, **facts: Any) -> Object:
    return node(name, labels={_ZONE: zone}, **facts)


def _term(labels: Mapping[str, str], key: str = _HOST, **fields: Any) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": dict(labels)}, **fields}


def _near(*terms: Object) -> Object:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def _apart(*terms: Object) -> Object:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def _spread(**fields: Any) -> list[Object]:
    selector = {"matchLabels": _WEB}
    usual = {"maxSkew": 1, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return [{**usual, **fields}]


def near_a_pod_that_comes_late() -> Scenario:
    return Scenario(
        [
            create(node("a"), node("b", cpu="8")),
            create(pod("follower", affinity=_near(_term({"app": "db"})))),
            create(pod("unrelated")),
            create(pod("db", labels={"app": "db"}, nodeSelector={_HOST: "a"})),
        ]
    )


def near_itself() -> Scenario:
    """The first of a group finds no pod to be near to, but itself."""
    pods = (create(pod(f"web{number}", labels=_WEB, affinity=_near(_term(_WEB, _ZONE)))) for number in range(3))
    return Scenario([create(_zoned("a", "z1", cpu="8"), _zoned("b", "z2")), *pods])


def near_a_pod_that_gets_its_label_late() -> Scenario:
    return Scenario(
        [
            create(node("a")),
            create(pod("db")),
            create(pod("follower", affinity=_near(_term({"app": "db"})))),
            change("Pod", "db", {"metadata": {"labels": {"app": "db"}}}),
        ]
    )


def near_pods_of_another_namespace() -> Scenario:
    labels = {"team": "core"}
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "core", "labels": labels}}
    term = _term({"app": "db"}, namespaceSelector={"matchLabels": labels})
    return Scenario(
        [
            create(namespace, node("a"), node("b", cpu="8")),
            create(pod("db", namespace="core", labels={"app": "db"}, nodeSelector={_HOST: "a"})),
            create(pod("follower", affinity=_near(term))),
        ]
    )


def apart_from_its_own_kind() -> Scenario:
    pods = (create(pod(f"web{number}", labels=_WEB, affinity=_apart(_term(_WEB)))) for number in range(3))
    return Scenario([create(node("a"), node("b", cpu="8")), *pods, create(node("c"))])


def apart_until_the_other_goes() -> Scenario:
    return Scenario(
        [
            create(node("a")),
            create(pod("shy", affinity=_apart(_term({"app": "noisy"})))),
            create(pod("noisy", labels={"app": "noisy"})),
            delete("Pod", "shy"),
        ]
    )


def apart_until_the_other_is_relabelled() -> Scenario:
    return Scenario(
        [
            create(node("a")),
            create(pod("noisy", labels={"app": "noisy"})),
            create(pod("shy", affinity=_apart(_term({"app": "noisy"})))),
            change("Pod", "noisy", {"metadata": {"labels": {"app": "quiet"}}}),
        ]
    )


def apart_until_a_waiting_pod_is_relabelled() -> Scenario:
    return Scenario(
        [
            create(node("a")),
            create(pod("shy", affinity=_apart(_term({"app": "noisy"})))),
            create(pod("noisy", labels={"app": "noisy"})),
            change("Pod", "noisy", {"metadata": {"labels": {"app": "quiet"}}}),
        ]
    )


def neighbours_are_weighed() -> Scenario:
    near = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": _term(_WEB)}]}
    apart = {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 80, "podAffinityTerm": _term({"app": "db"})}]
    }
    return Scenario(
        [
            create(node("a"), node("b"), node("c")),
            create(pod("web", labels=_WEB, nodeSelector={_HOST: "a"})),
            create(pod("db", labels={"app": "db"}, nodeSelector={_HOST: "b"})),
            create(pod("p", affinity={"podAffinity": near, "podAntiAffinity": apart})),
        ]
    )


def spread_over_zones() -> Scenario:
    pods = (create(pod(f"web{number}", labels=_WEB, topologySpreadConstraints=_spread())) for number in range(4))
    nodes = create(_zoned("a", "z1", cpu="8"), _zoned("b", "z2", cpu="1", pods="1"), _zoned("c", "z3"))
    return Scenario([nodes, *pods, create(_zoned("d", "z2"))])


def spread_with_nodes_without_the_label() -> Scenario:
    constrained = pod("web1", labels=_WEB, topologySpreadConstraints=_spread())
    return Scenario(
        [
            create(node("a"), node("b")),
            create(constrained),
            change("Node", "a", {"metadata": {"labels": {_ZONE: "z1"}}}),
        ]
    )


def spread_over_enough_zones() -> Scenario:
    pods = (
        create(pod(f"web{number}", labels=_WEB, topologySpreadConstraints=_spread(minDomains=3))) for number in range(3)
    )
    return Scenario([create(_zoned("a", "z1", cpu="8"), _zoned("b", "z2")), *pods, create(_zoned("c", "z3"))])


def spread_until_a_pod_goes() -> Scenario:
    web = pod("late", labels=_WEB, topologySpreadConstraints=_spread())
    return Scenario(
        [
            create(_zoned("a", "z1"), _zoned("b", "z2", cpu="1")),
            create(pod("blocker", requests={"cpu": "1"}, nodeSelector={_HOST: "b"})),
            create(pod("web1", labels=_WEB, nodeSelector={_HOST: "a"})),
            create({**web, "spec": {**web["spec"], "containers": _asking_for_cpu()}}),
            delete("Pod", "web1"),
        ]
    )


def _asking_for_cpu() -> list[Object]:
    return [{"name": "main", "image": "registry.example/main:1", "resources": {"requests": {"cpu": "1"}}}]


def spread_is_weighed() -> Scenario:
    soft = _spread(whenUnsatisfiable="ScheduleAnyway", maxSkew=2)
    pods = (
        create(pod(f"web{number}", labels=_WEB, requests={"cpu": "1"}, topologySpreadConstraints=soft))
        for number in range(3)
    )
    return Scenario([create(_zoned("a", "z1", cpu="8"), _zoned("b", "z2", cpu="6"), _zoned("c", "z2", cpu="2")), *pods])


def spread_of_a_service() -> Scenario:
    """The cluster's own constraints, for pods of a Service."""
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": _WEB, "ports": [{"port": 80}]},
    }
    nodes = create(_zoned("a", "z1", cpu="8"), _zoned("b", "z2", cpu="2"), service)
    return Scenario([nodes, *(create(pod(f"web{number}", labels=_WEB)) for number in range(3))])


def spread_over_nodes_that_the_pod_may_use() -> Scenario:
    """The tainted zone counts unless its taint is honoured."""
    taint = {"key": "dedicated", "value": "yes", "effect": "NoSchedule"}
    honoured = _spread(nodeTaintsPolicy="Honor")
    return Scenario(
        [
            create(_zoned("a", "z1"), _zoned("t", "z2", taints=[taint])),
            create(pod("first", labels=_WEB, topologySpreadConstraints=_spread())),
            create(pod("second", labels=_WEB, topologySpreadConstraints=_spread())),
            create(pod("honours", labels=_WEB, topologySpreadConstraints=honoured)),
            change("Node", "t", {"spec": {"taints": None}}),
        ]
    )


def spread_of_one_revision() -> Scenario:
    keyed = _spread(matchLabelKeys=["revision"])
    pods = (
        create(pod(f"web-{revision}-{number}", labels={**_WEB, "revision": revision}, topologySpreadConstraints=keyed))
        for revision in ("one", "two")
        for number in range(2)
    )
    return Scenario([create(_zoned("a", "z1", cpu="8"), _zoned("b", "z2")), *pods])


def apart_from_pods_that_are_going() -> Scenario:
    """A pod that is being deleted still counts for affinity, and no longer for spread."""
    going = pod("going", labels=_WEB, nodeSelector={_HOST: "a"}, terminationGracePeriodSeconds=600)
    return Scenario(
        [
            create(_zoned("a", "z1", cpu="8"), _zoned("b", "z2", cpu="1", pods="0")),
            create(going),
            delete("Pod", "going"),
            create(pod("shy", affinity=_apart(_term(_WEB)))),
            create(pod("web", labels=_WEB, topologySpreadConstraints=_spread())),
            end("going"),
        ]
    )

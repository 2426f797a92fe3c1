"""Pods that are in the way of a more important one: a cluster of four nodes, and what runs there in each scenario.

Making room costs most on node a, whose pods matter more, and least on b. On c a pod matters most of all, and d, where
it would cost no more than on b, is tainted. Each node is a zone of its own.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tests.e2e.support.objects import Object, node, pod

# How much pods matter. Preemptors are `high`.
PRIORITIES = {"low": 10, "middle": 50, "high": 100, "top": 1000}
# PodDisruptionBudgets, for pods with the label `budget`, and how many disruptions they allow.
BUDGETS = {"spent": 0, "last": 1}

_TAINT = {"key": "reserved", "value": "", "effect": "NoSchedule"}
_VISIBLE_PORT = 9999


class Scenario(NamedTuple):
    """A pod that fits nowhere, the pods that run, and the plugin that minds these."""

    plugin: str
    preemptor: Object
    running: Sequence[Object]


def cluster_objects() -> Iterator[Object]:
    """The nodes, the priority classes and the budgets, whose status is the test's to write."""
    for name in "abcd":
        yield node(name, labels={"zone": name}, taints=[_TAINT] if name == "d" else [])
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    for name, value in PRIORITIES.items():
        yield {**head, "metadata": {"name": name}, "value": value}
    yield {**head, "metadata": {"name": "polite"}, "value": PRIORITIES["high"], "preemptionPolicy": "Never"}
    for name in BUDGETS:
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"budget": name}}},
        }


def resources() -> Scenario:
    """Memory is short: on b two pods of low priority have to go, and one of middle priority can stay."""
    return Scenario(
        "NodeResourcesFit",
        preemptor(requests={"memory": "12Gi"}),
        [
            running("a", "important", "middle", requests={"memory": "8Gi"}),
            running("a", "cheap", "low", requests={"memory": "8Gi"}),
            running("b", "large", "low", requests={"memory": "8Gi"}),
            running("b", "small", "low", requests={"memory": "6Gi"}),
            running("b", "important", "middle", requests={"memory": "2Gi"}),
            running("c", "huge", "top", requests={"memory": "8Gi"}),
            running("c", "cheap", "low", requests={"memory": "8Gi"}),
            running("d", "cheap", "low", requests={"memory": "16Gi"}),
        ],
    )


def host_ports() -> Scenario:
    """One pod per node holds the port; its neighbour on b holds another."""
    return Scenario(
        "NodePorts",
        preemptor(host_ports=[8080]),
        [
            running("a", "holder", "middle", host_ports=[8080]),
            running("b", "neighbour", "low", host_ports=[8081]),
            running("b", "holder", "low", host_ports=[8080]),
            running("c", "holder", "top", host_ports=[8080]),
            running("d", "holder", "low", host_ports=[8080]),
        ],
    )


def anti_affinity() -> Scenario:
    """The pod keeps away from noisy ones, and a shy one keeps away from it."""
    return Scenario(
        "InterPodAffinity",
        preemptor(labels={"app": "quiet"}, affinity=_away_from("noisy")),
        [
            running("a", "noisy", "middle", labels={"app": "noisy"}),
            running("b", "noisy", "low", labels={"app": "noisy"}),
            running("b", "shy", "low", affinity=_away_from("quiet")),
            running("b", "idle", "low", labels={"app": "idle"}),
            running("c", "noisy", "top", labels={"app": "noisy"}),
            running("d", "noisy", "low", labels={"app": "noisy"}),
        ],
    )


def topology_spread() -> Scenario:
    """As zone d has no such pod, no zone may have more than one: to come to a zone is to displace all that it has."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    web = {"app": "web"}
    return Scenario(
        "PodTopologySpread",
        preemptor(labels=web, topologySpreadConstraints=[constraint]),
        [
            running("a", "web-1", "middle", labels=web),
            running("a", "web-2", "low", labels=web),
            running("b", "idle", "low", labels={"app": "idle"}),
            running("b", "web-1", "low", labels=web),
            running("b", "web-2", "low", labels=web),
            running("c", "web", "top", labels=web),
        ],
    )


CONFLICTS = (resources, host_ports, anti_affinity, topology_spread)


def with_visible_victims(scenario: Scenario) -> Scenario:
    """The same with one more victim on each node, which is in the way for two reasons: cpu and a host port.

    So kube-scheduler begins to preempt, whichever plugin it lacks, and proposes these alone.
    """
    visible = [running(name, "visible", "low", requests={"cpu": "4"}, host_ports=[_VISIBLE_PORT]) for name in "abc"]
    wanted = copy.deepcopy(scenario.preemptor)
    [container] = wanted["spec"]["containers"]
    container["resources"]["requests"]["cpu"] = "3"
    container["ports"].append({"containerPort": _VISIBLE_PORT, "hostPort": _VISIBLE_PORT})
    return Scenario(scenario.plugin, wanted, [*scenario.running, *visible])


def many_small() -> Scenario:
    """Twelve pods fill three nodes. Any of them makes room for a preemptor."""
    pods = [running(name, f"small-{number}", "low", requests={"cpu": "1"}) for name in "abc" for number in range(4)]
    return Scenario("NodeResourcesFit", preemptor(requests={"cpu": "1"}), pods)


def one_or_the_other() -> Scenario:
    """On b there is memory once one of two pods is gone, and the more important of them holds the port."""
    return Scenario(
        "NodePorts",
        preemptor(requests={"memory": "8Gi"}, host_ports=[8080]),
        [
            running("a", "huge", "top", requests={"memory": "16Gi"}),
            running("b", "holder", "middle", requests={"memory": "8Gi"}, host_ports=[8080]),
            running("b", "other", "low", requests={"memory": "8Gi"}),
            running("c", "huge", "top", requests={"memory": "16Gi"}),
        ],
    )


def budgeted() -> Scenario:
    """On a two pods would have to go, and one of them may; on b one has to, and the one that started later may not."""
    return Scenario(
        "NodeResourcesFit",
        preemptor(requests={"memory": "8Gi"}),
        [
            running("a", "important", "top", requests={"memory": "4Gi"}),
            running("a", "protected-1", "low", requests={"memory": "6Gi"}, labels={"budget": "last"}),
            running("a", "protected-2", "low", requests={"memory": "6Gi"}, labels={"budget": "last"}),
            running("b", "plain", "middle", requests={"memory": "8Gi"}),
            running("b", "protected", "middle", requests={"memory": "8Gi"}, labels={"budget": "spent"}),
            running("c", "huge", "top", requests={"memory": "16Gi"}),
        ],
    )


def preemptor(**facts: Any) -> Object:
    """The pod that fits nowhere."""
    return pod("preemptor", priorityClassName="high", **facts)


def running(node_name: str, name: str, priority: str, **facts: Any) -> Object:
    """A pod on a node. Once deleted it is Terminating until the test ends it, as a kubelet would."""
    facts |= {"nodeName": node_name, "priorityClassName": priority, "terminationGracePeriodSeconds": 600}
    return pod(f"{name}-on-{node_name}", **facts)


def _away_from(app: str) -> Object:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

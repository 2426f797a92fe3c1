"""Workloads like those of scheduler_perf (test/integration/scheduler_perf of Kubernetes), on nodes in three zones.

A workload has running pods and pending pods. Only bindings of pending pods are counted. Pending pods that fit no node
are first in the queue.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.e2e.support import objects
from tests.e2e.support.objects import Object

NAMESPACE = "default"
PRIORITY_CLASS: Object = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "high"},
    "value": 10,
}
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SMALL = {"cpu": "100m", "memory": "500Mi"}
TOO_LARGE = {"cpu": "9", "memory": "500Mi"}


@dataclass(frozen=True)
class Workload:
    """Pods by role: already `running`; pending but `hopeless`, because they fit no node; and `measured`."""

    name: str
    measured: Sequence[Object]
    running: Sequence[Object] = ()
    hopeless: Sequence[Object] = ()
    churns: bool = False
    preempts: bool = False


def nodes(count: int) -> list[Object]:
    """Return nodes of 4 cores, with the names of the peers' nodes."""
    return [
        objects.node(f"node-{number:05}", memory="32Gi", labels={ZONE: f"zone{number % 3 + 1}"})
        for number in range(count)
    ]


def workloads(node_count: int, pod_count: int) -> list[Workload]:
    """Return all workloads, each with `pod_count` measured pods, or fewer if the nodes have no room for them."""
    running = node_count // 5
    plain = _pods("pod", pod_count)
    zones = {"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}
    node_affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zones]}]}}}
    spread = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    affinity = {"podAffinity": {REQUIRED: [_term("blue", ZONE)]}}
    anti_affinity = {"podAntiAffinity": {REQUIRED: [_term("green", HOSTNAME)]}}
    blue, green = {"color": "blue"}, {"color": "green"}
    apart = min(pod_count, node_count - running)  # one pod a node, running pods included
    low = _on_nodes(_pods("low", 4 * node_count, requests={"cpu": "900m", "memory": "500Mi"}), node_count)
    high: Object = {"requests": {"cpu": "3", "memory": "500Mi"}, "priorityClassName": "high"}
    return [
        Workload("basic", plain, _on_nodes(_pods("old", running), node_count)),
        Workload(
            "node affinity",
            _pods("pod", pod_count, affinity=node_affinity),
            _on_nodes(_pods("old", running, affinity=node_affinity), node_count),
        ),
        Workload(
            "topology spread",
            _pods("pod", pod_count, labels=blue, topologySpreadConstraints=[spread]),
            _on_nodes(_pods("old", running), node_count),
        ),
        Workload(
            "pod affinity",
            _pods("pod", pod_count, labels=blue, affinity=affinity),
            _on_nodes(_pods("old", running, labels=blue, affinity=affinity), node_count),
        ),
        Workload(
            "pod anti-affinity",
            _pods("pod", apart, labels=green, affinity=anti_affinity),
            _on_nodes(_pods("old", running, labels=green, affinity=anti_affinity), node_count),
        ),
        Workload("preemption", _pods("pod", min(pod_count, node_count) // 2, **high), low, preempts=True),
        Workload("unschedulable", plain, hopeless=_pods("hopeless", 200, requests=TOO_LARGE)),
        Workload("churn", plain, churns=True),
    ]


def churn() -> list[Object]:
    """Return the objects to create and delete repeatedly: a node, a high-priority pod that fits nowhere, a Service."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "churn", "namespace": NAMESPACE},
        "spec": {"selector": {"app": "churn"}, "ports": [{"port": 8080}]},
    }
    return [
        objects.node("node-churn", memory="32Gi"),
        objects.pod("churn", requests=TOO_LARGE, priorityClassName="high"),
        service,
    ]


def _pods(
    name: str, count: int, *, requests: Object = SMALL, labels: Object | None = None, **spec: Any
) -> list[Object]:
    return [
        objects.pod(f"{name}-{number:05}", namespace=NAMESPACE, labels=labels, requests=requests, **spec)
        for number in range(count)
    ]


def _on_nodes(pods: list[Object], node_count: int) -> list[Object]:
    for number, pod in enumerate(pods):
        pod["spec"]["nodeName"] = f"node-{number % node_count:05}"
    return pods


def _term(color: str, topology_key: str) -> Object:
    return {"labelSelector": {"matchLabels": {"color": color}}, "topologyKey": topology_key}

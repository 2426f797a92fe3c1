"""Pods of workloads that scheduler_perf does not have."""

from typing import Any

from bench.scheduler.gang_plugin import GANG, PODS_OF_GANG
from bench.workloads import NAMESPACE, SMALL, TOO_LARGE, ZONE
from tests.e2e.support import objects
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.volume_controllers import BIND_COMPLETED, DRIVER, claim, storage_class

_PODS_OF_REPLICA_SET = 1000
_VOLUMES_OF_NODE = 32
_CLASS = "bound"


def replica_sets(name: str, pod_count: int) -> tuple[list[Object], list[Object]]:
    """Return ReplicaSets of 1,000 pods, and their pods."""
    owners: list[Object] = []
    pods: list[Object] = []
    for first in range(0, pod_count, _PODS_OF_REPLICA_SET):
        labels = {"app": f"{name}-{len(owners):03}"}
        count = min(_PODS_OF_REPLICA_SET, pod_count - first)
        owner = _replica_set(labels, count)
        owners.append(owner)
        reference = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": owner["metadata"]["name"],
            "uid": f"uid-of-{labels['app']}",
            "controller": True,
        }
        for number in range(first, first + count):
            pod = _pod(f"{name}-{number:05}", labels=labels)
            pod["metadata"]["ownerReferences"] = [reference]
            pods.append(pod)
    return owners, pods


def with_volumes(node_count: int, pod_count: int) -> tuple[list[Object], list[Object]]:
    """Return volumes that are bound to claims and reachable in one zone, all that they need, and a pod for each."""
    belongings = [storage_class(_CLASS), *(_csi_node(number) for number in range(node_count))]
    pods = []
    for number in range(pod_count):
        name = f"data-{number:05}"
        belongings += [_bound_claim(name), _volume(name, zone=number % 3 + 1)]
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        pods.append(_pod(f"pod-{number:05}", volumes=[volume]))
    return belongings, pods


def gangs(pod_count: int) -> list[Object]:
    """Return gangs of ten pods, which gang_plugin.py binds together. All gangs are complete."""
    gang_of = [number // PODS_OF_GANG for number in range(pod_count // PODS_OF_GANG * PODS_OF_GANG)]
    return [_pod(f"pod-{number:05}", labels={GANG: f"gang-{gang:04}"}) for number, gang in enumerate(gang_of)]


def fifth_hopeless(pod_count: int) -> tuple[list[Object], list[Object]]:
    """Return pods that fit, and a fifth of the number that request more than any node has. By names they take turns."""
    fitting, hopeless = [], []
    for number in range(pod_count):
        if number % 5:
            fitting.append(_pod(f"pod-{number:05}"))
        else:
            hopeless.append(_pod(f"pod-{number:05}", TOO_LARGE))
    return fitting, hopeless


def on_first_node(name: str) -> Object:
    """Return a pod that is bound already."""
    return _pod(name, nodeName="node-00000")


def _pod(name: str, requests: Object = SMALL, *, labels: Object | None = None, **spec: Any) -> Object:
    return objects.pod(name, namespace=NAMESPACE, labels=labels, requests=requests, **spec)


def _replica_set(labels: Object, count: int) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": labels["app"], "namespace": NAMESPACE},
        "spec": {
            "replicas": count,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": objects.pod("template")["spec"]},
        },
    }


def _csi_node(number: int) -> Object:
    name = f"node-{number:05}"
    driver = {"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE], "allocatable": {"count": _VOLUMES_OF_NODE}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [driver]},
    }


def _bound_claim(name: str) -> Object:
    bound = claim(name, _CLASS)
    bound["metadata"]["annotations"] = {BIND_COMPLETED: "yes"}
    bound["spec"]["volumeName"] = name
    return bound


def _volume(name: str, *, zone: int) -> Object:
    in_zone = {"key": ZONE, "operator": "In", "values": [f"zone{zone}"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {ZONE: f"zone{zone}"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": _CLASS,
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": name},
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
        },
    }

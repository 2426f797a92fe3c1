"""The cluster of bench/peers/internal/gen, made without Go: the fields that scheduling reads, and also volumes.

Each object depends only on its index. Node i: zone i % 3, rack i / 20 % 50, 32 cpu, 128Gi, 110 pods; tainted if
i / 10 % 10 is 9. Pod k of node i: app (7 i + 10 k) % 100, so each app has one pod on every tenth node.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.types.core import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    ResourceRequirements,
    SelectorRequirement,
)
from extender_service.kube.types.storage import (
    ClaimReference,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSISource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    Phase,
    StorageClass,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from extender_service.kube.types.workloads import ReplicaSet

APPS = 100
# Classes of pending pods. `pending_pod` also makes the classes PREEMPTOR and `volumes`.
CLASSES = (
    "plain",
    "plain-rs",
    "node-affinity",
    "toleration",
    "spread",
    "anti-affinity",
    "pref-pod-affinity",
)

PREEMPTOR = "preempt"  # the class of a pod that needs victims on every node

_HOSTNAME, _ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_nodes, _pods, _replica_sets = Decoder(Node), Decoder(Pod), Decoder(ReplicaSet)


def cluster(
    nodes: int,
    pods_per_node: int,
    *,
    images: int = 46,
    unique_labels: bool = False,
    rules: Rules = DEFAULT_RULES,
) -> Cluster:
    """Return a cluster with volumes. With `unique_labels`, each pod has a label of its own."""
    made = Cluster(rules)
    for app in range(APPS):
        made.workloads.apply(_replica_sets.decode(msgspec.json.encode(_replica_set(app))))
    for item in _storage(nodes, pods_per_node):
        made.apply_storage(item)
    for index in range(nodes):
        made.apply_node(_nodes.decode(msgspec.json.encode(node(index, images))))
    for pod in running_pods(nodes, pods_per_node, unique_labels=unique_labels):
        made.apply_pod(_pods.decode(msgspec.json.encode(pod)))
    return made


def node(index: int, image_count: int) -> dict[str, object]:
    """Return the manifest of node `index`."""
    name = f"node-{index:05}"
    taints = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}] if index // 10 % 10 == 9 else []
    images = [(index * 3 + number) % 60 for number in range(image_count)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "resourceVersion": str(1000 + index),
            "labels": {
                _HOSTNAME: name,
                _ZONE: f"zone-{index % 3}",
                "topology.kubernetes.io/region": "region-0",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux",
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "node.kubernetes.io/instance-type": ("std-32", "mem-32")[index % 2],
                "disktype": ("ssd", "hdd", "nvme")[index // 3 % 3],
                "topology.example/rack": f"rack-{index // 20 % 50:02}",
                "pool.example/name": f"pool-{index % 4}",
                "node-role.kubernetes.io/worker": "",
            },
        },
        "spec": {"taints": taints},
        "status": {
            "allocatable": {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": "110"},
            "images": [
                {"names": [f"{_image(number)}:v1.2.3"], "sizeBytes": (20 + number * 7) << 20} for number in images
            ],
        },
    }


def running_pods(nodes: int, pods_per_node: int, *, unique_labels: bool) -> Iterator[dict[str, Any]]:
    """Yield the running pods. Of 20 pods, one has required and one preferred anti-affinity to its own app."""
    for index in range(nodes):
        for number in range(pods_per_node):
            pod_id = index * pods_per_node + number
            app = (7 * index + 10 * number) % APPS
            pod = _pod(f"pod-{pod_id:07}", app, _CPU[pod_id % 4], _MEMORY[pod_id % 3])
            pod["spec"]["nodeName"] = f"node-{index:05}"
            if unique_labels:
                pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] = pod["metadata"]["name"]
            if pod_id % 20 == 7:
                pod["spec"]["affinity"] = {"podAntiAffinity": {_REQUIRED: [_host_term(app)]}}
            if pod_id % 20 == 16:
                term = {"weight": 50, "podAffinityTerm": _host_term(app)}
                pod["spec"]["affinity"] = {"podAntiAffinity": {_PREFERRED: [term]}}
            if number % _VOLUME_EVERY == 0:
                pod["spec"]["volumes"] = [_volume(f"claim-{pod_id:07}")]
            yield pod


def manifests(nodes: int, pods_per_node: int) -> dict[str, object]:
    """Return the same cluster without volumes, as a List for --cluster-file."""
    pods = running_pods(nodes, pods_per_node, unique_labels=False)
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {"apiVersion": "v1", "kind": "NodeList", "items": [node(index, 46) for index in range(nodes)]},
            {"apiVersion": "v1", "kind": "PodList", "items": [*pods]},
            {"apiVersion": "apps/v1", "kind": "ReplicaSetList", "items": [_replica_set(app) for app in range(APPS)]},
        ],
    }


def pending_pod(kind: str) -> Pod:
    """Return a pending pod: `kind` is one of CLASSES, PREEMPTOR or `volumes`."""
    return _pods.decode(msgspec.json.encode(pending_manifest(kind)))


def pending_manifest(kind: str) -> dict[str, Any]:
    """Return the manifest of the same pod. Only plain-rs, spread and anti-affinity pods have running siblings."""
    pod = _pod(f"pending-{kind}", 7, "30" if kind == PREEMPTOR else "500m", "1Gi")
    if kind not in ("plain-rs", "spread", "anti-affinity"):
        pod["metadata"]["labels"]["app"] = "pending-alone"
    spec = pod["spec"]
    if kind == "plain-rs":
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": _owner(7), "uid": "uid", "controller": True}
        pod["metadata"]["ownerReferences"] = [owner]
    if kind == "node-affinity":
        zones = {"key": _ZONE, "operator": "In", "values": ["zone-0", "zone-1"]}
        pool = {"key": "pool.example/name", "operator": "NotIn", "values": ["pool-3"]}
        disk = {"key": "disktype", "operator": "In", "values": ["ssd"]}
        spec["affinity"] = {
            "nodeAffinity": {
                _REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zones]}]},
                _PREFERRED: [
                    {"weight": 10, "preference": {"matchExpressions": [disk]}},
                    {"weight": 5, "preference": {"matchExpressions": [pool]}},
                ],
            }
        }
    if kind == "toleration":
        spec["tolerations"].append({"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"})
    if kind == "spread":
        spec["topologySpreadConstraints"] = [
            {"maxSkew": 5, "topologyKey": _ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _selector(7)},
            {
                "maxSkew": 1,
                "topologyKey": _HOSTNAME,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": _selector(7),
            },
        ]
    if kind == PREEMPTOR:
        spec["priority"] = 1000
    if kind == "volumes":
        spec["volumes"] = [_volume(name) for name in ("bound", "waiting")]
    if kind == "anti-affinity":
        spec["affinity"] = {"podAntiAffinity": {_REQUIRED: [_host_term(7)]}}
    if kind == "pref-pod-affinity":
        term = {"labelSelector": _selector(3), "topologyKey": _ZONE}
        spec["affinity"] = {"podAffinity": {_PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}}
    return pod


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_CLASS, _DRIVER = "fast", "disk.csi.example"
_VOLUME_EVERY = 10
_HASH = "5d8f7c9b6d"
_CPU = ("250m", "500m", "1", "2")
_MEMORY = ("512Mi", "1Gi", "2Gi")


def _image(number: int) -> str:
    return f"images.example/team-{number % 7}/service-{number:03}"


def _selector(app: int) -> dict[str, object]:
    return {"matchLabels": {"app": f"app-{app:03}"}}


def _owner(app: int) -> str:
    return f"app-{app:03}-{_HASH}"


def _replica_set(app: int) -> dict[str, object]:
    return {"metadata": {"name": _owner(app), "namespace": "default"}, "spec": {"selector": _selector(app)}}


def _volume(claim: str) -> dict[str, Any]:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


def _storage(nodes: int, pods_per_node: int) -> Iterator[StorageObject]:
    """Yield a volume and its bound claim for every tenth pod, and the objects for the claims of `pending_pod`."""
    yield StorageClass(ObjectMeta(name=_CLASS), _DRIVER, "WaitForFirstConsumer")
    for index in range(nodes):
        driver = CSINodeDriver(_DRIVER, VolumeNodeResources(32))
        yield CSINode(ObjectMeta(name=f"node-{index:05}"), CSINodeSpec((driver,)))
        for number in range(0, pods_per_node, _VOLUME_EVERY):
            yield from _bound(f"claim-{index * pods_per_node + number:07}", index % 3)
    yield from _bound("bound", 0)
    yield _claim("waiting", "")


def _bound(claim: str, zone: int) -> Iterator[StorageObject]:
    in_zone = NodeSelectorTerm((SelectorRequirement(_ZONE, "In", (f"zone-{zone}",)),))
    yield PersistentVolume(
        ObjectMeta(name=f"volume-of-{claim}", labels={_ZONE: f"zone-{zone}"}),
        PersistentVolumeSpec(
            csi=CSISource(_DRIVER, f"handle-of-{claim}"),
            capacity={"storage": "1Gi"},
            access_modes=("ReadWriteOnce",),
            claim_ref=ClaimReference("default", claim, f"uid-{claim}"),
            storage_class_name=_CLASS,
            node_affinity=VolumeNodeAffinity(NodeSelector((in_zone,))),
        ),
        Phase("Bound"),
    )
    yield _claim(claim, f"volume-of-{claim}")


def _claim(name: str, volume_name: str) -> PersistentVolumeClaim:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if volume_name else {}
    return PersistentVolumeClaim(
        ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", annotations=annotations),
        PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            resources=ResourceRequirements({"storage": "1Gi"}),
            volume_name=volume_name,
            storage_class_name=_CLASS,
        ),
        Phase("Bound" if volume_name else "Pending"),
    )


def _host_term(app: int) -> dict[str, object]:
    return {"labelSelector": _selector(app), "topologyKey": _HOSTNAME}


def _pod(name: str, app: int, cpu: str, memory: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "labels": {
                "app": f"app-{app:03}",
                "pod-template-hash": _HASH,
                "tier": ("web", "back", "data")[app % 3],
                "version": "v1",
                "app.kubernetes.io/managed-by": "deployer",
            },
        },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [
                {
                    "image": f"{_image(app % 60)}:v1.2.3",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": cpu, "memory": memory}},
                }
            ],
            "tolerations": [
                {"key": f"node.kubernetes.io/{problem}", "operator": "Exists", "effect": "NoExecute"}
                for problem in ("not-ready", "unreachable")
            ],
        },
        "status": {},
    }

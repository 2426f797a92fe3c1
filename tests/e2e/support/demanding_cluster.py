"""A cluster in which every plugin of the default profile has a say: in where pods may go, or where they go rather.

All pods have a place in the end, however they follow each other.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from tests.e2e.support.objects import Object, node, pod

_ZONE = "topology.kubernetes.io/zone"
_HOST = "kubernetes.io/hostname"
_MEGABYTE = 1_000_000

# Disks of this driver: so many on a node at most, just enough for all. Other volumes would take places of theirs.
_DRIVER, _DISKS_PER_NODE = "disks.example.com", 2
_DRIVER_WITHOUT_LIMIT = "volumes.example.com"
_ZONAL_CLAIMS, _LOCAL_CLAIMS, _DISK_CLAIMS, _EXCLUSIVE_CLAIMS = 12, 12, 20, 6

NAMESPACE: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"team": "data"}}}


def surroundings() -> list[Object]:
    """All but the pods and their namespace: nodes, volumes and claims, a Service and a ReplicaSet."""
    return [*(_node(number) for number in range(48)), *_csi_nodes(), *_claims(), *_workloads()]


def pods() -> list[Object]:
    """358 pods, the kinds taking turns."""
    kinds = [
        _resource_pods(),
        _node_pods(),
        _port_pods(),
        _spread_pods(),
        _neighbour_pods(),
        _image_pods(),
        _claim_pods(),
    ]
    return [wanted for turn in zip_longest(*kinds) for wanted in turn if wanted is not None]


def pods_in_numbers() -> list[Object]:
    """100 pods, kind after kind; those of a kind differ in their names alone."""
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    rather_apart = {"podAntiAffinity": {preferred: [{"weight": 20, "podAffinityTerm": _term("rather-apart", _ZONE)}]}}
    kinds: list[Callable[[str], Object]] = [
        lambda name: pod(f"plain-{name}", requests={"cpu": "50m"}),
        lambda name: _spread(f"even-{name}", "even", _ZONE, "DoNotSchedule"),
        lambda name: _spread(f"rather-even-{name}", "rather-even", _HOST, "ScheduleAnyway"),
        lambda name: _neighbour(f"near-{name}", "near", {"podAffinity": {required: [_term("near", _ZONE)]}}),
        lambda name: _neighbour(f"rather-apart-{name}", "rather-apart", rather_apart),
    ]
    return [kind(f"of-many-{number}") for kind in kinds for number in range(20)]


def pods_with_new_fields() -> list[Object]:
    """30 pods, kind after kind, with what Kubernetes 1.37 counts, and 1.31 does not have or does not count."""
    port = {"containerPort": 8081, "hostPort": 8081}
    sidecar = {"name": "sidecar", "image": "registry.example/side:1", "restartPolicy": "Always", "ports": [port]}
    model = {"name": "model", "image": {"reference": "registry.example/model:1"}}
    kinds: list[Callable[[str], Object]] = [
        lambda name: pod(f"as-a-whole-{name}", resources={"requests": {"cpu": "700m", "memory": "1Gi"}}),
        lambda name: pod(f"sidecar-port-{name}", initContainers=[sidecar], nodeSelector={_ZONE: "b"}),
        lambda name: pod(f"model-{name}", requests={"cpu": "50m"}, volumes=[model]),
    ]
    return [kind(str(number)) for kind in kinds for number in range(10)]


def exclusive_pods(name: str) -> list[Object]:
    """Pods with claims that one pod at a time may use. Those of another name wait until these are gone."""
    return [
        pod(f"{name}-{number}", requests={"cpu": "50m"}, volumes=[_claimed(f"exclusive-{number}")])
        for number in range(_EXCLUSIVE_CLAIMS)
    ]


def _node(number: int) -> Object:
    """Nodes of three sizes in three zones; six for some pods only, six better left alone, two cordoned."""
    cpu, memory = ("2", "4Gi") if number % 5 == 0 else ("4", "16Gi") if number % 2 else ("8", "16Gi")
    pool = "dedicated" if number < 6 else "spot" if number < 12 else "disks" if 14 <= number < 24 else "plain"
    effect = {"dedicated": "NoSchedule", "spot": "PreferNoSchedule"}.get(pool)
    made = node(
        f"node-{number}",
        cpu=cpu,
        memory=memory,
        labels={_ZONE: "abc"[number % 3], "disk": "ssd" if number % 2 else "hdd", "pool": pool},
        taints=[{"key": "pool", "value": pool, "effect": effect}] if effect else [],
    )
    made["spec"]["unschedulable"] = number in (12, 13)
    sizes = {"registry.example/model:1": 800 * _MEGABYTE, "registry.example/web:2": 300 * _MEGABYTE}
    every = {"registry.example/model:1": 4, "registry.example/web:2": 3}
    made["status"]["images"] = [
        {"names": [name], "sizeBytes": size} for name, size in sizes.items() if number % every[name] == 0
    ]
    return made


def _csi_nodes() -> Iterator[Object]:
    for number in range(14, 24):
        driver = {"name": _DRIVER, "nodeID": str(number), "allocatable": {"count": _DISKS_PER_NODE}}
        yield {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": f"node-{number}"},
            "spec": {"drivers": [driver]},
        }


def _claims() -> Iterator[Object]:
    """Claims that are bound already, each to a volume of its own."""
    for number in range(_ZONAL_CLAIMS):
        yield from _bound_claim(f"zonal-{number}", labels={_ZONE: "abc"[number % 3]})
    for number in range(_LOCAL_CLAIMS):
        hosts = _expression(_HOST, "In", f"node-{24 + number}", f"node-{25 + number}", f"node-{26 + number}")
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}}
        yield from _bound_claim(f"local-{number}", nodeAffinity=affinity)
    for number in range(_DISK_CLAIMS):
        yield from _bound_claim(f"disk-{number}", driver=_DRIVER)
    for number in range(_EXCLUSIVE_CLAIMS):
        yield from _bound_claim(f"exclusive-{number}", access_mode="ReadWriteOncePod")


def _bound_claim(
    name: str,
    *,
    access_mode: str = "ReadWriteOnce",
    labels: dict[str, str] | None = None,
    driver: str = _DRIVER_WITHOUT_LIMIT,
    **volume: Any,
) -> Iterator[Object]:
    common = {"accessModes": [access_mode], "storageClassName": ""}
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            **common,
            "capacity": {"storage": "1Gi"},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
            "csi": {"driver": driver, "volumeHandle": name},
            **volume,
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}},
    }


def _workloads() -> Iterator[Object]:
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"selector": {"app": "shop"}, "ports": [{"port": 80}]},
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "replicas": 30,
            "selector": {"matchLabels": {"app": "shop", "tier": "front"}},
            "template": {
                "metadata": {"labels": {"app": "shop", "tier": "front"}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
            },
        },
    }


def _resource_pods() -> Iterator[Object]:
    for number in range(40):
        yield pod(f"plain-{number}", requests={"cpu": "250m", "memory": "256Mi"})
        if number % 2:
            yield pod(f"large-{number}", requests={"cpu": "3", "memory": "2Gi"})
    # Larger than its container while it starts, and by its runtime's overhead as long as it runs.
    start = {"name": "start", "image": "registry.example/start:1", "resources": {"requests": {"cpu": "1500m"}}}
    for number in range(10):
        yield pod(f"starting-{number}", requests={"cpu": "100m"}, initContainers=[start])


def _node_pods() -> Iterator[Object]:
    toleration = {"key": "pool", "operator": "Equal", "value": "dedicated", "effect": "NoSchedule"}
    terms = [{"matchExpressions": [_expression("disk", "In", "ssd"), _expression(_ZONE, "NotIn", "a")]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    preference = {"weight": 10, "preference": {"matchExpressions": [_expression("disk", "In", "ssd")]}}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [preference]}
    for number in range(24):
        yield pod(f"on-ssd-{number}", requests={"cpu": "100m"}, affinity={"nodeAffinity": required})
        yield pod(f"rather-ssd-{number}", requests={"cpu": "100m"}, affinity={"nodeAffinity": preferred})
        if number % 2:
            selector = {"pool": "dedicated"}
            yield pod(f"dedicated-{number}", requests={"cpu": "100m"}, nodeSelector=selector, tolerations=[toleration])


def _port_pods() -> Iterator[Object]:
    for number in range(10):
        yield pod(f"port-{number}", requests={"cpu": "50m"}, host_ports=[8080], nodeSelector={_ZONE: "b"})


def _spread_pods() -> Iterator[Object]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shop", "uid": "shop", "controller": True}
    for number in range(28):
        yield _spread(f"even-{number}", "even", _ZONE, "DoNotSchedule")
        yield _spread(f"rather-even-{number}", "rather-even", _HOST, "ScheduleAnyway")
        of_replica_set = pod(f"shop-{number}", labels={"app": "shop", "tier": "front"}, requests={"cpu": "50m"})
        of_replica_set["metadata"]["ownerReferences"] = [owner]
        yield of_replica_set


def _spread(name: str, app: str, topology: str, unsatisfiable: str) -> Object:
    constraint = {
        "maxSkew": 1,
        "topologyKey": topology,
        "whenUnsatisfiable": unsatisfiable,
        "labelSelector": {"matchLabels": {"app": app}},
    }
    return pod(name, labels={"app": app}, requests={"cpu": "50m"}, topologySpreadConstraints=[constraint])


def _neighbour_pods() -> Iterator[Object]:
    """Pods that must or would rather be near or apart from others of their kind, or of another namespace."""
    required, preferred = (
        "requiredDuringSchedulingIgnoredDuringExecution",
        "preferredDuringSchedulingIgnoredDuringExecution",
    )
    of_team = {"topologyKey": _ZONE, "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "data"}}}
    for number in range(16):
        yield _neighbour(f"near-{number}", "near", {"podAffinity": {required: [_term("near", _ZONE)]}})
        apart = _neighbour(f"apart-{number}", "apart", {"podAntiAffinity": {required: [_term("apart", _HOST)]}})
        apart["metadata"]["namespace"] = NAMESPACE["metadata"]["name"]
        yield apart
        weighted = [{"weight": 50, "podAffinityTerm": of_team}]
        yield _neighbour(f"near-team-{number}", "near-team", {"podAffinity": {preferred: weighted}})
        weighted = [{"weight": 20, "podAffinityTerm": _term("rather-apart", _ZONE)}]
        yield _neighbour(f"rather-apart-{number}", "rather-apart", {"podAntiAffinity": {preferred: weighted}})


def _neighbour(name: str, app: str, affinity: Object) -> Object:
    return pod(name, labels={"app": app}, requests={"cpu": "50m"}, affinity=affinity)


def _term(app: str, topology: str) -> Object:
    return {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}}


def _image_pods() -> Iterator[Object]:
    for number in range(20):
        image = "registry.example/model:1" if number % 2 else "registry.example/web:2"
        yield pod(f"image-{number}", containers=[{"name": "main", "image": image}])


def _claim_pods() -> Iterator[Object]:
    for number in range(_ZONAL_CLAIMS):
        yield _with_volumes(f"zonal-{number}", [_claimed(f"zonal-{number}")])
    for number in range(_LOCAL_CLAIMS):
        yield _with_volumes(f"local-{number}", [_claimed(f"local-{number}")])
    for number in range(_DISK_CLAIMS):
        yield _with_volumes(f"disk-{number}", [_claimed(f"disk-{number}")], nodeSelector={"pool": "disks"})
    # The same disk, which different nodes may use but not two pods of one node.
    for number in range(6):
        yield _with_volumes(f"same-disk-{number}", [{"name": "disk", "gcePersistentDisk": {"pdName": "same"}}])


def _with_volumes(name: str, volumes: Sequence[Object], **spec: Any) -> Object:
    return pod(name, requests={"cpu": "50m"}, volumes=list(volumes), **spec)


def _claimed(claim: str) -> Object:
    return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}


def _expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}

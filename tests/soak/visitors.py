"""Objects that come for a while, and whose every value is new: nothing that is kept of one serves for another.

A visitor is a pod with what belongs to it: its owner, its claims, its namespace, its budget. All of it follows from a
number, by which the pods take turns in how they are scheduled.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from extender_service.kube.resources.api_resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    Resource,
)

Manifest = dict[str, Any]

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
# Resources and drivers are few at any time, if never the same: for each there is a column of all nodes, or of all pods.
_DEVICES_EACH = 40
_ALIKE = 200

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class Belonging(NamedTuple):
    """An object that comes and goes with a pod or a node."""

    resource: Resource[Any]
    manifest: Manifest


class Visitor(NamedTuple):
    """A pod and what belongs to it. One that is not `bindable` waits for volumes that nobody makes."""

    pod: Manifest
    belongings: list[Belonging]
    bindable: bool = True


def visitor(number: int) -> Visitor:
    """Visitor `number`."""
    return _KINDS[number % len(_KINDS)](number)


def labels(number: int) -> dict[str, str]:
    """Labels that only visitor `number` has; its selectors go by the first."""
    return {"app": f"app-{number}", f"key-{number}.example/name": f"value-{number}"}


def node(number: int) -> Manifest:
    """A node, with taints that pods would rather not tolerate and a resource that no other offers."""
    name = f"visiting-node-{number}"
    manifest = {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "labels": {HOSTNAME: name, ZONE: f"zone-{number % 3}", f"rack-{number}.example/row": f"row-{number}"},
            "annotations": {f"note-{number}.example/text": f"text {number}"},
        },
        "spec": {},
        "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "200Gi", "pods": "110"}},
    }
    return changed_node(manifest, number)


def changed_node(manifest: Manifest, number: int) -> Manifest:
    """A node with a label, a taint, an amount and an image that no node had before; some with a resource, too."""
    metadata, status = manifest["metadata"], manifest["status"]
    devices = {f"example.com/device-{number}": "8", f"attachable-volumes-csi-driver-{number}.example": "20"}
    taint = {"key": f"taint-{number}.example/key", "value": f"v{number}", "effect": "PreferNoSchedule"}
    return {
        **manifest,
        "metadata": {**metadata, "labels": {**metadata["labels"], f"new-{number}.example/key": f"value-{number}"}},
        "spec": {"taints": [*manifest["spec"].get("taints", ()), taint]},
        "status": {
            "allocatable": {
                **status["allocatable"],
                "memory": str((128 << 30) + number),
                "ephemeral-storage": str((200 << 30) + number),
                **({} if number % _DEVICES_EACH else devices),
            },
            "images": [{"names": [f"images.example/of-nodes/image-{number}:v1"], "sizeBytes": (50 << 20) + number}],
        },
    }


def node_belongings(number: int) -> list[Belonging]:
    """What a CSI driver says of visiting node `number`."""
    name = f"visiting-node-{number}"
    driver = {"name": f"driver-{number}.example", "nodeID": name, "allocatable": {"count": 16}}
    return [
        Belonging(CSI_NODES, {"metadata": {"name": name}, "spec": {"drivers": [driver]}}),
        Belonging(
            CSI_STORAGE_CAPACITIES,
            {
                "metadata": {"name": f"capacity-{number}", "namespace": f"drivers-{number}"},
                "storageClassName": f"class-of-node-{number}",
                "nodeTopology": {"matchLabels": {f"rack-{number}.example/row": f"row-{number}"}},
                "capacity": "1Ti",
            },
        ),
    ]


def _pod(number: int, namespace: str = "default", **spec: object) -> Manifest:
    name = f"visitor-{number}"
    requests = {"cpu": f"{50_000_000 + number}n", "memory": str((64 << 20) + number)}
    if number % 3:
        spec.setdefault("affinity", {"podAffinity": {_PREFERRED: _near_terms(number)}})
    container = {"name": "main", "image": f"images.example/image-{number}:v1", "resources": {"requests": requests}}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-of-{name}",
            "labels": labels(number),
            "annotations": {f"note-{number}.example/text": f"text {number}"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"schedulerName": "default-scheduler", "priority": number, "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def _selector(number: int) -> Manifest:
    return {"matchLabels": {"app": f"app-{number}"}}


def _named(name: str, namespace: str = "default", **more: object) -> Manifest:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", **more}}


def _owner(kind: str, api_version: str, name: str) -> Manifest:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-of-{name}", "controller": True}


def _plain(number: int) -> Visitor:
    return Visitor(_pod(number), [])


def _owned(number: int) -> Visitor:
    """A pod of a ReplicaSet and a Service: spread by their selectors, by default."""
    name = f"owner-{number}"
    pod = _pod(number)
    pod["metadata"]["ownerReferences"] = [_owner("ReplicaSet", "apps/v1", name)]
    replica_set = {**_named(name), "spec": {"selector": _selector(number)}}
    service = {**_named(f"service-{number}"), "spec": {"selector": {"app": f"app-{number}"}}}
    return Visitor(pod, [Belonging(REPLICA_SETS, replica_set), Belonging(SERVICES, service)])


def _stateful(number: int) -> Visitor:
    """A pod of a StatefulSet, whose labels a ReplicationController selects, too."""
    name = f"stateful-{number}"
    pod = _pod(number)
    pod["metadata"]["ownerReferences"] = [_owner("StatefulSet", "apps/v1", name)]
    stateful_set = {**_named(name), "spec": {"selector": _selector(number)}}
    controller = {**_named(f"controller-{number}"), "spec": {"selector": {"app": f"app-{number}"}}}
    return Visitor(pod, [Belonging(STATEFUL_SETS, stateful_set), Belonging(REPLICATION_CONTROLLERS, controller)])


def _spread(number: int) -> Visitor:
    """A pod that spreads over zones as it must, and over racks as far as it can."""
    hard = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    soft = {"maxSkew": 1, "topologyKey": f"rack-{number}.example/row", "whenUnsatisfiable": "ScheduleAnyway"}
    constraints = [{**constraint, "labelSelector": _selector(number)} for constraint in (hard, soft)]
    return Visitor(_pod(number, topologySpreadConstraints=constraints), [])


def _apart(number: int) -> Visitor:
    """A pod in a namespace of its own that keeps away from others, there and in other namespaces."""
    namespace = f"namespace-{number}"
    own = {"labelSelector": _selector(number), "topologyKey": HOSTNAME}
    elsewhere = {
        "labelSelector": {"matchExpressions": [{"key": f"key-{number}.example/name", "operator": "Exists"}]},
        "namespaceSelector": {"matchLabels": {f"team-{number}.example/name": "x"}},
        "namespaces": [f"other-{number}"],
        "topologyKey": f"rack-{number}.example/row",
    }
    terms = {_REQUIRED: [own], _PREFERRED: [{"weight": 7, "podAffinityTerm": elsewhere}]}
    known_as = {"metadata": {"name": namespace, "labels": {f"team-{number}.example/name": "x"}}}
    pod = _pod(number, namespace, affinity={"podAntiAffinity": terms})
    return Visitor(pod, [Belonging(NAMESPACES, known_as)])


def _near(number: int) -> Visitor:
    """A pod that has to be where others are, none of which is there yet: it is the first one of them."""
    own = {"labelSelector": _selector(number), "topologyKey": ZONE}
    return Visitor(_pod(number, affinity={"podAffinity": {_REQUIRED: [own], _PREFERRED: _near_terms(number)}}), [])


def _near_terms(number: int) -> list[Manifest]:
    """Would rather be where other visitors are."""
    return [
        {"weight": 10, "podAffinityTerm": {"labelSelector": _selector(number - back), "topologyKey": topology}}
        for back, topology in ((1, ZONE), (2, HOSTNAME))
    ]


def _choosy(number: int) -> Visitor:
    """A pod with things to say about labels and taints of nodes."""
    absent = {"key": f"rack-{number}.example/row", "operator": "NotIn", "values": [f"row-{number}"]}
    large = {"key": f"size-{number}.example/gib", "operator": "Gt", "values": [str(number)]}
    affinity = {
        _REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [absent]}]},
        _PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [large]}}],
    }
    toleration = {"key": f"taint-{number}.example/key", "operator": "Equal", "value": f"v{number}"}
    return Visitor(_pod(number, affinity={"nodeAffinity": affinity}, tolerations=[toleration]), [])


def _listening(number: int) -> Visitor:
    """A pod with a port of an address that no other pod listens on."""
    pod = _pod(number)
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    pod["spec"]["containers"][0]["ports"] = [{"hostIP": address, "hostPort": 1024 + number % 60_000}]
    return Visitor(pod, [])


def _with_devices(number: int) -> Visitor:
    """A pod that names a resource which no node offers, and needs none of it."""
    pod = _pod(number)
    pod["spec"]["containers"][0]["resources"]["requests"][f"example.com/of-pods-{number // _ALIKE}"] = "0"
    pod["spec"]["overhead"] = {"cpu": "1m"}
    return Visitor(pod, [])


def _protected(number: int) -> Visitor:
    """A pod in a budget, for which others have made room on a node."""
    budget = {
        **_named(f"budget-{number}"),
        "spec": {"selector": _selector(number)},
        "status": {"disruptionsAllowed": 1},
    }
    pod = _pod(number)
    pod["status"]["nominatedNodeName"] = "node-00000"
    return Visitor(pod, [Belonging(POD_DISRUPTION_BUDGETS, budget)])


def _storing(number: int) -> Visitor:
    """A pod with a bound claim, of a class and a driver that nobody else uses, and with a disk."""
    driver, of_class = f"disk-{number // _ALIKE}.csi.example", f"class-{number}"
    claim, volume = f"claim-{number}", f"volume-{number}"
    bound = {"pv.kubernetes.io/bind-completed": "yes", f"note-{number}.example/text": "x"}
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": claim}},
        {"name": "disk", "gcePersistentDisk": {"pdName": f"disk-{number}"}},
    ]
    return Visitor(
        _pod(number, volumes=volumes),
        [
            Belonging(CSI_DRIVERS, {**_named(f"csi-driver-{number}", ""), "spec": {"storageCapacity": True}}),
            Belonging(STORAGE_CLASSES, {**_named(of_class, ""), "provisioner": driver}),
            Belonging(
                PERSISTENT_VOLUMES,
                {
                    **_named(volume, ""),
                    "spec": {
                        "capacity": {"storage": "1Gi"},
                        "storageClassName": of_class,
                        "csi": {"driver": driver, "volumeHandle": f"handle-{number}"},
                        "claimRef": {"namespace": "default", "name": claim, "uid": f"uid-of-{claim}"},
                    },
                    "status": {"phase": "Bound"},
                },
            ),
            Belonging(
                PERSISTENT_VOLUME_CLAIMS,
                {
                    **_named(claim, annotations=bound),
                    "spec": {"storageClassName": of_class, "volumeName": volume},
                    "status": {"phase": "Bound"},
                },
            ),
        ],
    )


def _waiting_for_volumes(number: int) -> Visitor:
    """A pod one of whose claims needs a volume that is there, the other one that has to be made."""
    driver = f"waiting-{number // _ALIKE}.csi.example"
    later = {"volumeBindingMode": "WaitForFirstConsumer"}
    claims = [f"first-{number}", f"second-{number}"]
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    belongings = [
        Belonging(STORAGE_CLASSES, {**_named(f"class-of-{claim}", ""), "provisioner": provisioner, **later})
        for claim, provisioner in zip(claims, ("kubernetes.io/no-provisioner", driver), strict=True)
    ]
    spec = {
        "capacity": {"storage": "1Gi"},
        "storageClassName": f"class-of-{claims[0]}",
        "csi": {"driver": driver, "volumeHandle": f"handle-{number}"},
    }
    free = {**_named(f"free-{number}", ""), "spec": spec, "status": {"phase": "Available"}}
    belongings.append(Belonging(PERSISTENT_VOLUMES, free))
    for claim in claims:
        wanted = {"storageClassName": f"class-of-{claim}", "resources": {"requests": {"storage": "1Gi"}}}
        pending = {**_named(claim), "spec": wanted, "status": {"phase": "Pending"}}
        belongings.append(Belonging(PERSISTENT_VOLUME_CLAIMS, pending))
    return Visitor(_pod(number, volumes=volumes), belongings, bindable=False)


_KINDS: tuple[Callable[[int], Visitor], ...] = (
    _plain,
    _owned,
    _spread,
    _apart,
    _near,
    _plain,
    _choosy,
    _stateful,
    _listening,
    _with_devices,
    _protected,
    _storing,
    _plain,
    _waiting_for_volumes,
)

"""Random cases for the queueing hints: a rejected pod, a profile, and what happens to other objects.

The values come from small pools, so that objects often concern the pod, and hints say Queue about as often as not.
`python -m tests.lockstep.hints.generator --seed 1 --count 100` writes cases as JSON lines.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, TypeVar

from extender_service.config.release import NEWEST_MINOR, OLDEST_MINOR
from extender_service.framework.cluster_event import (
    ASSIGNED_POD,
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    STORAGE_CLASS,
    TARGET_POD,
    UNSCHEDULABLE_POD,
    UNSCHEDULED_POD,
    VOLUME_ATTACHMENT,
    ActionType,
)
from tests.lockstep.action_bits import KNOWN_ACTIONS

Json = dict[str, Any]
T = TypeVar("T")

EVENTS_PER_CASE = 20
# How often an event is about a kind: most hints are about pods, nodes and claims.
WEIGHTS = {
    POD: 8,
    NODE: 8,
    PERSISTENT_VOLUME: 2,
    PERSISTENT_VOLUME_CLAIM: 4,
    STORAGE_CLASS: 2,
    CSI_NODE: 2,
    CSI_DRIVER: 1,
    CSI_STORAGE_CAPACITY: 3,
}
# Of later releases; of pods that wait, the newest says whether the rejected one is meant.
LATER_WEIGHTS = WEIGHTS | {POD: 0, ASSIGNED_POD: 5, UNSCHEDULABLE_POD: 5, VOLUME_ATTACHMENT: 2}
NEWEST_WEIGHTS = WEIGHTS | {POD: 0, ASSIGNED_POD: 5, TARGET_POD: 4, UNSCHEDULED_POD: 1, VOLUME_ATTACHMENT: 2}

# What an update never changes.
IDENTITY = ("name", "namespace", "uid")
NAMESPACES = ["default", "default", "default", "team-a"]
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ["web", "db"]
CLAIMS = ["c1", "web-data"]
QUANTITIES = ["0", "1", "1000m", "1001m", "2", "500m", "1Gi", "1073741824", "1e9", "1.5Gi", "1n", "100n", "8"]
# The same amounts, spelled otherwise.
RESPELLED = {"1": "1000m", "1000m": "1", "1Gi": "1073741824", "1073741824": "1Gi", "1e9": "1G", "1n": "0.000000001"}
SIZES = ["1Gi", "1073741824", "1024Mi", "2Gi", "1073741825", "500m", "1", "0", "1e9", "9E", "8Ei"]
RESOURCES = ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi", "pods", "slots"]
TOPOLOGY_LABELS = [
    ZONE,
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
]
# Not in the default profile.
IN_TREE_LIMITS = ["EBSLimits", "GCEPDLimits", "AzureDiskLimits", "CinderLimits"]
IN_TREE_SOURCES: list[Json] = [
    {"azureFile": {"secretName": "s", "shareName": "s"}},
    {"azureDisk": {"diskName": "d", "diskURI": "u"}},
    {"cinder": {"volumeID": "v"}},
    {"portworxVolume": {"volumeID": "v"}},
    {"vsphereVolume": {"volumePath": "p"}},
]


class Source(Random):
    """A random source with the shorthands that the generators need."""

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.random() < probability

    def some(self, make: Callable[[], T], most: int) -> list[T]:
        """Return up to so many new things."""
        return [make() for _ in range(self.randint(0, most))]

    def subset(self, values: Sequence[T], probability: float = 0.5) -> list[T]:
        """Return the values, each with this probability."""
        return [value for value in values if self.chance(probability)]


def cases(seed: int, count: int, minor: int = OLDEST_MINOR) -> Iterator[Json]:
    """Yield cases for the release 1.`minor`; the same seed and index always give the same one."""
    for index in range(count):
        yield case(f"hints-{seed}-{index}", minor)


def case(name: str, minor: int = OLDEST_MINOR) -> Json:
    """Return the case of this name."""
    r = Source(name)
    target = pod(r, is_target=True)
    if minor != OLDEST_MINOR:
        add_later_fields(r, target, minor)
    return {
        "name": name,
        "hints": r.chance(0.85),
        "config": config(r, minor),
        "objects": workloads(r),
        "pod": target,
        "events": [event(r, target, minor) for _ in range(EVENTS_PER_CASE)],
    }


def event(r: Source, target: Json, minor: int) -> Json:
    """Return something that happens: a resource, an action, and the object before and after."""
    weights = {OLDEST_MINOR: WEIGHTS, NEWEST_MINOR: NEWEST_WEIGHTS}.get(minor, LATER_WEIGHTS)
    updates = [action for action in KNOWN_ACTIONS[minor] if action and action in ActionType.UPDATE]
    updates += [ActionType.UPDATE] * 8
    resource = r.choices(list(weights), list(weights.values()))[0]
    make = MAKERS[resource]
    action = r.choice([ActionType.ADD, ActionType.DELETE, *r.choices(updates, k=2)])
    before, after = make(r), make(r)
    if minor != OLDEST_MINOR:
        add_later_fields(r, before, minor)
        add_later_fields(r, after, minor)
    if make is pod and r.chance(0.6 if resource in (TARGET_POD, UNSCHEDULABLE_POD) else 0.3):
        before["metadata"] |= {key: target["metadata"][key] for key in IDENTITY}
        if r.chance(0.5):
            before["spec"] = dict(target["spec"])
    if r.chance(0.9):
        after = updated(r, before, after)
    if r.chance(0.03):  # no handler passes a wrong kind; the hint then says so
        before, after = r.choice([(before, pod(r)), (csi_driver(r), after), (csi_driver(r), csi_driver(r))])
    if minor != OLDEST_MINOR and before["kind"] == after["kind"]:
        make_one_object(before, after)
    return {
        "resource": resource,
        "action": int(action),
        "old": None if action is ActionType.ADD else before,
        "new": None if action is ActionType.DELETE else after,
    }


def make_one_object(before: Json, after: Json) -> None:
    """Let two objects be the same one before and after a change; a pod on a node is not the one that was rejected."""
    after["metadata"] |= {key: before["metadata"][key] for key in IDENTITY if key in before["metadata"]}
    if any(each.get("spec", {}).get("nodeName") for each in (before, after)) and before["kind"] == "Pod":
        for each in (before, after):
            each["metadata"]["uid"] = "running"
            each.get("status", {}).pop("resourceClaimStatuses", None)  # which are made before it has a node


def updated(r: Source, before: Json, other: Json) -> Json:
    """Return an object of which a few fields are those of another of its kind."""
    after: Json = json.loads(json.dumps(before))
    for section in ("metadata", "spec", "status"):
        for key, value in other.get(section, {}).items():
            if key not in IDENTITY and r.chance(0.3):
                after[section][key] = value
    for key, value in other.items():
        if key not in ("apiVersion", "kind", "metadata", "spec", "status") and r.chance(0.4):
            after[key] = value
    if "allocatable" in after.get("status", {}) and r.chance(0.3):
        offered = before["status"]["allocatable"]
        after["status"]["allocatable"] = {name: RESPELLED.get(raw, raw) for name, raw in offered.items()}
    return after


def config(r: Source, minor: int = OLDEST_MINOR) -> Json | None:
    """Return a configuration in which some plugins have arguments that matter to hints; often the default."""
    args: dict[str, Json] = {}
    if r.chance(0.2):
        terms = [node_selector_term(r, may_be_wrong=False) for _ in range(r.randint(1, 2))]
        args["NodeAffinity"] = {
            "addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    if r.chance(0.3):
        default = {"maxSkew": 1, "topologyKey": r.choice([ZONE, HOST]), "whenUnsatisfiable": "DoNotSchedule"}
        args["PodTopologySpread"] = {"defaultingType": "List", "defaultConstraints": [default]}
    if r.chance(0.2):
        args["NodeResourcesFit"] = {"ignoredResources": ["example.com/gpu"]}
    added = r.subset(IN_TREE_LIMITS) if r.chance(0.2) and minor == OLDEST_MINOR else []
    if not args and not added and r.chance(0.8):
        return None
    profile: Json = {"pluginConfig": [{"name": name, "args": value} for name, value in args.items()]}
    gone = r.subset(["SchedulingGates", "NodePorts", "VolumeBinding", "InterPodAffinity"], 0.1)
    profile["plugins"] = {
        "multiPoint": {"enabled": [{"name": name} for name in added], "disabled": [{"name": name} for name in gone]}
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def workloads(r: Source) -> list[Json]:
    """Return Services and controllers, from which pods without constraints get a selector."""
    found: list[Json] = []
    for namespace in r.subset(["default", "team-a"]):
        metadata = {"name": "svc", "namespace": namespace}
        found.append({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels(r)}})
    for namespace in r.subset(["default", "team-a"], 0.3):
        metadata = {"name": "owner", "namespace": namespace}
        selector = {"matchLabels": {"app": r.choice(APPS)}}
        for version, kind in (("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")):
            found.append({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"selector": selector}})
    return found


# Pods.


def pod(r: Source, *, is_target: bool = False) -> Json:
    """Return a pod, with most chances on a node unless it is the one that was rejected."""
    spec: Json = {
        "containers": [container(r) for _ in range(r.randint(1, 2))],
        "initContainers": r.some(lambda: container(r, is_init=True), 1),
        "overhead": requests(r) if r.chance(0.1) else {},
        "tolerations": r.some(lambda: toleration(r), 2),
        "volumes": [volume(r, name) for name in r.subset(["data", "logs", "more"], 0.6)],
        "nodeSelector": {"disk": r.choice(["ssd", "hdd"])} if r.chance(0.25) else {},
        "affinity": affinity(r),
        "topologySpreadConstraints": r.some(lambda: constraint(r), 2),
        "schedulingGates": [{"name": name} for name in r.subset(["g1", "g2"], 0.2)],
        "nodeName": "" if is_target or r.chance(0.2) else r.choice(["n1", "n2"]),
    }
    metadata: Json = {
        "name": r.choice(["web", "db", "other"]),
        "namespace": r.choice(NAMESPACES),
        "uid": r.choice(["", "u1", "u2"]),
        "labels": labels(r),
    }
    if r.chance(0.3):
        kind = r.choice(["ReplicaSet", "StatefulSet"])
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": "owner", "uid": "o", "controller": True}
        metadata["ownerReferences"] = [owner]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def labels(r: Source) -> dict[str, str]:
    """Return labels of a pod."""
    return {key: value for key, value in (("app", r.choice(APPS)), ("tier", r.choice(["1", "2"]))) if r.chance(0.7)}


def container(r: Source, *, is_init: bool = False) -> Json:
    """Return a container."""
    made: Json = {"name": "c", "resources": {"requests": requests(r)}, "ports": r.some(lambda: port(r), 2)}
    if is_init and r.chance(0.5):
        made["restartPolicy"] = "Always"
    return made


def requests(r: Source) -> dict[str, str]:
    """Return resources, in various spellings."""
    tiny = r.chance(0.1)
    return {name: r.choice(["1n", "100n", "1u"] if tiny else QUANTITIES) for name in r.subset(RESOURCES, 0.3)}


def port(r: Source) -> Json:
    """Return a container's port."""
    made: Json = {"containerPort": 80, "hostPort": r.choice([0, 80, 80, 8080])}
    if r.chance(0.5):
        made["hostIP"] = r.choice(["", "0.0.0.0", "127.0.0.1", "10.0.0.1"])
    if r.chance(0.5):
        made["protocol"] = r.choice(["TCP", "UDP"])
    return made


def toleration(r: Source) -> Json:
    """Return a toleration."""
    return {
        "key": r.choice(["", "busy", "gpu"]),
        "operator": r.choice(["", "Exists", "Equal"]),
        "value": r.choice(["", "x"]),
        "effect": r.choice(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
    }


def volume(r: Source, name: str) -> Json:
    """Return a volume, most often of a claim."""
    read_only = r.chance(0.5)
    source: Json = r.choice(
        [
            {"persistentVolumeClaim": {"claimName": r.choice(CLAIMS)}},
            {"persistentVolumeClaim": {"claimName": r.choice(CLAIMS)}},
            {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"emptyDir": {}},
            {"gcePersistentDisk": {"pdName": r.choice(["d1", "d2"]), "readOnly": read_only}},
            {"awsElasticBlockStore": {"volumeID": r.choice(["d1", "d2"]), "readOnly": read_only}},
            {"iscsi": {"iqn": r.choice(["d1", "d2"]), "targetPortal": "p", "lun": 0, "readOnly": read_only}},
            {"rbd": {"monitors": r.subset(["m1", "m2"], 0.7), "image": r.choice(["i1", "i2"]), "readOnly": read_only}},
            *IN_TREE_SOURCES,
        ]
    )
    return {"name": name, **source}


def affinity(r: Source) -> Json:
    """Return the required affinity of a pod, of each kind or none."""
    made: Json = {}
    if r.chance(0.4):
        terms = r.some(lambda: node_selector_term(r), 2)
        made["nodeAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    for kind in r.subset(["podAffinity", "podAntiAffinity"], 0.6):
        made[kind] = {
            "requiredDuringSchedulingIgnoredDuringExecution": r.some(lambda: pod_affinity_term(r), 2),
            "preferredDuringSchedulingIgnoredDuringExecution": r.some(
                lambda: {"weight": 1, "podAffinityTerm": pod_affinity_term(r)}, 1
            ),
        }
    return made


def pod_affinity_term(r: Source) -> Json:
    """Return a term, now and then with a selector of namespaces."""
    made: Json = {"topologyKey": r.choice([ZONE, HOST, "rack"]), "labelSelector": selector(r)}
    if r.chance(0.3):
        made["namespaces"] = r.subset(["default", "team-a"])
    if r.chance(0.2):
        made["namespaceSelector"] = selector(r)
    return made


def selector(r: Source) -> Json | None:
    """Return a label selector: none, empty or malformed ones too."""
    if r.chance(0.05):
        return None
    made: Json = {}
    if r.chance(0.5):
        made["matchLabels"] = {"app": r.choice(APPS)}
    if r.chance(0.3):
        made["matchExpressions"] = [requirement(r, "tier", ["1", "2"], may_be_wrong=True)]
    return made


def requirement(r: Source, key: str, values: list[str], *, may_be_wrong: bool) -> Json:
    """Return a requirement on a label."""
    if may_be_wrong and r.chance(0.15):
        wrong: list[Json] = [
            {"key": key, "operator": "In", "values": []},
            {"key": key, "operator": "Near", "values": values},
            {"key": "no key", "operator": "Exists"},
            {"key": key, "operator": "NotIn", "values": ["no value"]},
        ]
        return r.choice(wrong)
    operator = r.choice(["In", "NotIn", "Exists", "DoesNotExist"])
    return {"key": key, "operator": operator, "values": [r.choice(values)] if operator.endswith("In") else []}


def constraint(r: Source) -> Json:
    """Return a topology spread constraint."""
    made: Json = {
        "maxSkew": 1,
        "topologyKey": r.choice([ZONE, HOST, "rack"]),
        "whenUnsatisfiable": r.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": selector(r),
    }
    if r.chance(0.3):
        made["matchLabelKeys"] = r.subset(["app", "tier"])
    return made


# Nodes.


def node(r: Source) -> Json:
    """Return a node."""
    name = r.choice(["n1", "n2"])
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": node_labels(r, name),
            "annotations": {"a": r.choice("xy")} if r.chance(0.3) else {},
        },
        "spec": {"unschedulable": r.chance(0.3), "taints": r.some(lambda: taint(r), 2)},
        "status": {"allocatable": allocatable(r), "conditions": r.some(lambda: condition(r), 2)},
    }


def node_labels(r: Source, name: str) -> dict[str, str]:
    """Return labels of a node of this name."""
    possible = {
        ZONE: r.choice("ab"),
        HOST: name,
        "rack": "1",
        "disk": r.choice(["ssd", "hdd"]),
        "gen": r.choice(["1", "5", "x"]),
    }
    return {key: possible[key] for key in r.subset(list(possible), 0.7)}


def allocatable(r: Source) -> dict[str, str]:
    """Return what a node offers: now and then no room for a single pod."""
    few = {name: r.choice(QUANTITIES) for name in r.subset(RESOURCES, 0.8)}
    much = dict.fromkeys(r.subset(RESOURCES, 0.9), "100Gi")
    return few if r.chance(0.4) else much | ({"pods": r.choice(["110", "1", "0"])} if r.chance(0.8) else {})


def taint(r: Source) -> Json:
    """Return a taint; only some have a time."""
    made: Json = {
        "key": r.choice(["busy", "gpu"]),
        "value": r.choice(["", "x"]),
        "effect": r.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
    }
    if r.chance(0.3):
        made["timeAdded"] = r.choice(["2024-01-01T00:00:00Z", "2024-01-01T00:00:01Z"])
    return made


def condition(r: Source) -> Json:
    """Return a condition; its heartbeat is no change."""
    times = {"lastHeartbeatTime": f"2024-01-01T00:00:0{r.randint(0, 9)}Z"}
    return {"type": r.choice(["Ready", "DiskPressure"]), "status": r.choice(["True", "False"]), **times}


def node_selector_term(r: Source, *, may_be_wrong: bool = True) -> Json:
    """Return a term about a node's labels or its name."""
    if r.chance(0.2):
        values = [r.choice(["n1", "n2"])]
        return {"matchFields": [{"key": "metadata.name", "operator": r.choice(["In", "NotIn"]), "values": values}]}
    if may_be_wrong and r.chance(0.05):
        return {}
    if r.chance(0.2):
        bound = "x" if may_be_wrong and r.chance(0.1) else "3"
        return {"matchExpressions": [{"key": "gen", "operator": r.choice(["Gt", "Lt"]), "values": [bound]}]}
    return {"matchExpressions": [requirement(r, "disk", ["ssd", "hdd"], may_be_wrong=may_be_wrong)]}


# Storage.


def persistent_volume(r: Source) -> Json:
    """Return a volume with zones, some of them malformed."""
    zones = ["a", "b", "a__b", "b__a", "a__ b", "", "a__", " a"]
    found = {key: r.choice(zones) for key in r.subset(TOPOLOGY_LABELS, 0.4)}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv", "labels": found}, "spec": {}}


def claim(r: Source) -> Json:
    """Return a claim, often one of the pod's."""
    metadata = {"name": r.choice(CLAIMS), "namespace": r.choice(NAMESPACES), "annotations": {"a": r.choice("xy")}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {"volumeName": "pv"}}


def storage_class(r: Source) -> Json:
    """Return a storage class."""
    made: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "sc"},
        "provisioner": "p",
        "allowedTopologies": r.some(
            lambda: {"matchLabelExpressions": r.some(lambda: {"key": ZONE, "values": [r.choice("ab")]}, 1)}, 1
        ),
    }
    if r.chance(0.8):
        made["volumeBindingMode"] = r.choice(["Immediate", "WaitForFirstConsumer"])
    return made


def csi_node(r: Source) -> Json:
    """Return a CSINode, with plugins that are migrated."""
    migrated = {"storage.alpha.kubernetes.io/migrated-plugins": r.choice(["", "kubernetes.io/cinder"])}
    drivers = r.some(lambda: {"name": "d", "nodeID": "n"}, 1)
    metadata = {"name": r.choice(["n1", "n2"]), "annotations": migrated if r.chance(0.7) else {}}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}}


def csi_driver(r: Source) -> Json:
    """Return a CSIDriver."""
    spec = {"storageCapacity": r.chance(0.5)}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"}, "spec": spec}


def capacity(r: Source) -> Json:
    """Return a CSIStorageCapacity; the size of its largest volume counts more than its capacity."""
    made: Json = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "k", "namespace": "default"},
        "storageClassName": "sc",
    }
    for key in r.subset(["capacity", "maximumVolumeSize"], 0.6):
        made[key] = r.choice(SIZES)
    return made


def attachment(r: Source) -> Json:
    """Return a VolumeAttachment of a driver that has taken over an in-tree plugin, or of another one."""
    spec = {
        "attacher": r.choice(["ebs.csi.aws.com", "pd.csi.storage.gke.io", "file.csi.azure.com", "csi.example.com"]),
        "nodeName": "n",
        "source": {"persistentVolumeName": "v"},
    }
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "a"}, "spec": spec}


# What hints of later releases read besides.


def add_later_fields(r: Source, made: Json, minor: int) -> None:
    """Add to an object what hints of the release 1.`minor` read, which is later than v1.31.1."""
    if made["kind"] == "Pod":
        add_to_pod(r, made)
        if minor >= 34 and r.chance(0.1):  # before, the API server drops them
            made["spec"]["resources"] = {
                "requests": {name: r.choice(QUANTITIES) for name in r.subset(["cpu", "memory"])}
            }
    elif made["kind"] == "Node":
        made["status"]["declaredFeatures"] = r.subset(["UserNamespacesHostNetworkSupport", "VolumeBindMountOptions"])
    elif made["kind"] == "CSINode":
        for driver in made["spec"]["drivers"]:
            driver["allocatable"] = r.choice([{}, {"count": r.randint(0, 2)}])


def add_to_pod(r: Source, made: Json) -> None:
    """Add a nomination, what the kubelet reports of a resize, and features that a node must have."""
    spec = made["spec"]
    if r.chance(0.5):
        spec["volumes"].append({"name": "inline", "csi": {"driver": r.choice(["d", "e"])}})
    if r.chance(0.2):
        spec |= {"hostNetwork": True, "hostUsers": r.chance(0.5)}
    for each in spec["topologySpreadConstraints"]:
        if r.chance(0.5):
            each["nodeTaintsPolicy"] = r.choice(["Honor", "Ignore"])
    status: Json = {"nominatedNodeName": r.choice(["n1", "n2"]) if r.chance(0.4) else ""}
    for kind in ("containers", "initContainers"):
        for index, each in enumerate(spec[kind]):
            each["name"] = f"{kind.lower()}-{index}"
        if r.chance(0.2):
            reported = [container_status(r, each["name"]) for each in spec[kind]]
            status["containerStatuses" if kind == "containers" else "initContainerStatuses"] = reported
    if r.chance(0.1):
        reason = r.choice(["Infeasible", "Deferred"])
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
        status["resize"] = reason
    if r.chance(0.2):
        claim_name = r.choice(["a", "b"])
        status["resourceClaimStatuses"] = [{"name": "device", "resourceClaimName": claim_name}]
    made["status"] = status


def container_status(r: Source, name: str) -> Json:
    """Return what the kubelet reports of a container: allocated and actual resources."""
    made: Json = {"name": name}
    if r.chance(0.7):
        made["allocatedResources"] = requests(r)
    if r.chance(0.7):
        made["resources"] = {"requests": requests(r)}
    return made


MAKERS: dict[str, Callable[[Source], Json]] = {
    POD: pod,
    ASSIGNED_POD: pod,
    TARGET_POD: pod,
    UNSCHEDULABLE_POD: pod,
    UNSCHEDULED_POD: pod,
    VOLUME_ATTACHMENT: attachment,
    NODE: node,
    PERSISTENT_VOLUME: persistent_volume,
    PERSISTENT_VOLUME_CLAIM: claim,
    STORAGE_CLASS: storage_class,
    CSI_NODE: csi_node,
    CSI_DRIVER: csi_driver,
    CSI_STORAGE_CAPACITY: capacity,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args()
    for made in cases(options.seed, options.count):
        json.dump(made, sys.stdout, separators=(",", ":"))
        sys.stdout.write("\n")

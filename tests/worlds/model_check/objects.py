"""Objects that scripts create and change: small, and with quantities in their canonical form."""

from random import Random
from typing import Any

Object = dict[str, Any]

NAMES = ("a", "b", "c")
NODES = ("{ns}-n1", "{ns}-n2")
_LABELS: tuple[Object, ...] = ({}, {"app": "x"}, {"app": "x", "tier": "1"}, {"app": "y"})


def labels(random: Random) -> Object:
    return dict(random.choice(_LABELS))


def _owner(random: Random) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "a",
        "uid": "{uid:replicasets/a}" if random.random() < 0.8 else "",
        "controller": True,
    }


def metadata(random: Random, name: str) -> Object:
    found: Object = {"name": name, "labels": labels(random)}
    if random.random() < 0.1:
        found["annotations"] = {"note": "1"}
    if random.random() < 0.15:
        found["finalizers"] = ["example.com/hold"]
    if random.random() < 0.1:
        found["ownerReferences"] = [_owner(random)]
    if random.random() < 0.03:
        found["labels"] = random.choice([{"bad key": "x"}, {"app": "-bad-"}])
    if random.random() < 0.02:
        found["namespace"] = "elsewhere"
    if random.random() < 0.02:
        found["resourceVersion"] = "12"
    return found


def container(random: Random, name: str = "main") -> Object:
    found: Object = {"name": name, "image": random.choice(["registry.example/main:1", "registry.example/main"])}
    if random.random() < 0.5:
        found["resources"] = random.choice(
            [
                {"requests": {"cpu": "1"}},
                {"limits": {"cpu": "1", "memory": "1Gi"}},
                {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            ]
        )
    if random.random() < 0.2:
        found["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    if random.random() < 0.03:
        del found["image"]
    return found


def pod(random: Random, name: str) -> Object:
    spec: Object = {"containers": [container(random)]}
    if random.random() < 0.3:
        spec["nodeName"] = random.choice(NODES)
    if random.random() < 0.5:
        spec["terminationGracePeriodSeconds"] = random.choice([0, 1, 30])
    if random.random() < 0.1:
        spec["schedulingGates"] = [{"name": "example.com/wait"}]
    if random.random() < 0.15:
        spec["priorityClassName"] = random.choice(["system-node-critical", "system-cluster-critical", "unknown"])
    if random.random() < 0.05:
        spec["priority"] = random.choice([0, 5])
    if random.random() < 0.1:
        spec["nodeSelector"] = {"zone": "1"}
    if random.random() < 0.1:
        spec["tolerations"] = [{"key": "a", "operator": "Exists"}]
    if random.random() < 0.02:
        spec["containers"] = []
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(random, name), "spec": spec}


def pod_status(random: Random) -> Object:
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"},
    ]
    return random.choice(
        [
            {"phase": "Running", "conditions": [conditions[0]]},
            {"phase": "Running"},
            {"phase": random.choice(["Succeeded", "Failed"])},
            {"conditions": [random.choice(conditions)]},
            {"conditions": [conditions[2]], "nominatedNodeName": NODES[0]},
            {"nominatedNodeName": None},
            {"conditions": [{"type": "Ready", "$patch": "delete"}]},
            {"conditions": [{"status": "True"}]},
        ]
    )


# With one of these, most pods change their QOSClass, or request more than their limits or their node allow.
_RESIZES: tuple[Object, ...] = (
    {},
    {"requests": {"cpu": "250m"}},
    {"requests": {"cpu": "250m", "memory": "512Mi"}},
    {"requests": {"memory": "4Gi"}},
    {"requests": {"ephemeral-storage": "1Gi"}},
    {"limits": {"cpu": "2", "memory": "4Gi"}},
    {"requests": {"cpu": "2", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
    {"requests": {"memory": "32Gi"}, "limits": {"memory": "32Gi"}},
)
_REMOVALS: tuple[Object, ...] = ({"requests": {"cpu": None}}, {"limits": {"memory": None}}, {"limits": None})


def resized_container(random: Random, *, is_strategic: bool) -> Object:
    """The container of a pod with other resources. Only a strategic merge patch can remove some."""
    found: Object = {"name": "main"}
    found["resources"] = random.choice(_RESIZES + _REMOVALS if is_strategic else _RESIZES)
    if random.random() < 0.2:
        found["image"] = "registry.example/main:2"
    if random.random() < 0.05:
        found["resizePolicy"] = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    if random.random() < 0.05:
        found.update(name="other", image="registry.example/other:1")
    return found


def node(random: Random, name: str) -> Object:
    resources = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    found = metadata(random, name)
    found["labels"] = {**found["labels"], "script": "{ns}"}
    found.pop("ownerReferences", None)
    spec: Object = {"taints": [{"key": "a", "effect": "NoSchedule"}]} if random.random() < 0.3 else {}
    if random.random() < 0.2:
        spec["unschedulable"] = True
    status: Object = {"capacity": resources}
    if random.random() < 0.5:
        status["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    return {"apiVersion": "v1", "kind": "Node", "metadata": found, "spec": spec, "status": status}


def budget(random: Random, name: str) -> Object:
    spec: Object = {"selector": {"matchLabels": {"app": "x"}}, "minAvailable": 1}
    if random.random() < 0.1:
        spec["selector"] = {}
    if random.random() < 0.05:
        spec["maxUnavailable"] = 1
    if random.random() < 0.1:
        spec["selector"] = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]}
    if random.random() < 0.2:
        spec["unhealthyPodEvictionPolicy"] = random.choice(["AlwaysAllow", "IfHealthyBudget"])
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(random, name),
        "spec": spec,
    }


def budget_status(random: Random) -> Object:
    return {
        "observedGeneration": random.choice([1, 1, 2, 0]),
        "disruptionsAllowed": random.choice([0, 1, 1, 2]),
        "currentHealthy": random.choice([1, 2]),
        "desiredHealthy": random.choice([0, 1, 2]),
        "expectedPods": 2,
    }


def lease(random: Random, name: str) -> Object:
    spec = {
        "holderIdentity": random.choice(["one", "two"]),
        "leaseDurationSeconds": random.choice([15, 15, 15, 0]),
        "acquireTime": "2023-11-14T22:13:20.000000Z",
        "renewTime": "2023-11-14T22:13:20.000000Z",
        "leaseTransitions": 0,
    }
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": metadata(random, name),
        "spec": spec,
    }


def workload(random: Random, name: str, kind: str) -> Object:
    wanted = {"app": "x"}
    selector = wanted if kind == "ReplicationController" else {"matchLabels": wanted}
    template = {"metadata": {"labels": wanted}, "spec": {"containers": [container(random)]}}
    if random.random() < 0.05:
        template["metadata"] = {"labels": {"app": "y"}}
    spec: Object = {"replicas": random.choice([0, 1, 3, -1]), "selector": selector, "template": template}
    if kind == "StatefulSet":
        spec["serviceName"] = "a"
    version = "v1" if kind == "ReplicationController" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata(random, name), "spec": spec}


def claim(random: Random, name: str) -> Object:
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    }
    if random.random() < 0.1:
        del spec["accessModes"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(random, name),
        "spec": spec,
    }


def volume(random: Random, name: str) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "storageClassName": "fast",
        "csi": {"driver": "csi.example.com", "volumeHandle": "1"},
    }
    found = metadata(random, name)
    found["labels"] = {**found["labels"], "script": "{ns}"}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": found, "spec": spec}


def event(random: Random, name: str) -> Object:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": "2023-11-14T22:13:20.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-one",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "{ns}", "name": "a"},
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": random.choice(["a note", ""]),
    }


# Path, kind, and whether it is namespaced, of kinds that scripts create, patch, replace and delete alike.
OTHERS = (
    ("storage.k8s.io/v1/storageclasses", "StorageClass", False),
    ("storage.k8s.io/v1/csinodes", "CSINode", False),
    ("storage.k8s.io/v1/csidrivers", "CSIDriver", False),
    ("storage.k8s.io/v1/csistoragecapacities", "CSIStorageCapacity", True),
    ("storage.k8s.io/v1/volumeattachments", "VolumeAttachment", False),
    ("scheduling.k8s.io/v1/priorityclasses", "PriorityClass", False),
    ("v1/services", "Service", True),
    ("v1/configmaps", "ConfigMap", True),
    ("v1/namespaces", "Namespace", False),
)


def other(random: Random, path: str, kind: str, name: str) -> Object:
    """An object of one of the other kinds."""
    found = metadata(random, name)
    found.pop("ownerReferences", None)
    return {"apiVersion": path.rpartition("/")[0], "kind": kind, "metadata": found, **_content(random, kind)}


def _content(random: Random, kind: str) -> Object:
    match kind:
        case "StorageClass":
            mode = random.choice(["WaitForFirstConsumer", "Immediate"])
            return {"provisioner": "csi.example.com", "volumeBindingMode": mode}
        case "CSINode":
            driver = {"name": "csi.example.com", "nodeID": "n", "topologyKeys": ["zone"], "allocatable": {"count": 3}}
            return {"spec": {"drivers": random.choice([[driver], []])}}
        case "CSIDriver":
            return {"spec": random.choice([{"storageCapacity": True}, {"attachRequired": False}, {}])}
        case "CSIStorageCapacity":
            return {"storageClassName": "fast", "capacity": "1Gi", "nodeTopology": {"matchLabels": {"zone": "1"}}}
        case "VolumeAttachment":
            source = {"persistentVolumeName": "v"}
            return {"spec": {"attacher": "csi.example.com", "nodeName": "n", "source": source}}
        case "PriorityClass":
            return {"value": random.choice([5, 1000]), **random.choice([{}, {"preemptionPolicy": "Never"}])}
        case "Service":
            return {"spec": {"clusterIP": "None", "selector": {"app": "x"}, "ports": [{"port": 80}]}}
        case "ConfigMap":
            return {"data": {"key": "text"}}
        case _:
            return {}


def change(random: Random, kind: str) -> Object:
    """A change of one of the other kinds, as a merge patch."""
    changes: dict[str, list[Object]] = {
        "StorageClass": [{"allowVolumeExpansion": True}, {"provisioner": "other.example.com"}],
        "CSINode": [{"spec": {"drivers": []}}],
        "CSIDriver": [{"spec": {"storageCapacity": False}}, {"spec": {"attachRequired": True}}],
        "CSIStorageCapacity": [{"capacity": "2Gi"}, {"storageClassName": "slow"}],
        "VolumeAttachment": [{"spec": {"nodeName": "m"}}],
        "PriorityClass": [{"description": "text"}, {"value": 7}],
        "Service": [{"spec": {"selector": {"app": "y"}}}],
        "ConfigMap": [{"data": {"key": None, "other": "text"}}],
    }
    return dict(random.choice(changes.get(kind, [{}])))

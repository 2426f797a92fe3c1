"""The kinds that the model serves, and how each departs from the rule (the strategies in kubernetes/pkg/registry)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]
Fields = Callable[[Object], Mapping[str, str]]


@dataclass(frozen=True, eq=False)
class Kind:
    """One resource of the API.

    - `has_status`: status is written through the subresource alone
    - `has_generation`: metadata.generation counts the changes of the spec
    - `creates_on_update`: a PUT makes an object that is not there
    - `updates_unconditionally`: a PUT needs no resource version
    - `returns_deleted`: the answer to a DELETE is the object, not a Status
    - `fields`: what a field selector may name besides metadata.name and metadata.namespace
    """

    group: str
    version: str
    plural: str
    name: str
    is_namespaced: bool = True
    has_status: bool = False
    has_generation: bool = False
    creates_on_update: bool = False
    updates_unconditionally: bool = True
    returns_deleted: bool = False
    fields: Fields = lambda _: {}

    @property
    def qualified(self) -> str:
        """The plural with its group, as error texts have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def _pod_fields(pod: Object) -> Mapping[str, str]:
    spec, status = pod.get("spec", {}), pod.get("status", {})
    return {
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.restartPolicy": spec.get("restartPolicy", ""),
        "spec.schedulerName": spec.get("schedulerName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
        "status.phase": status.get("phase", ""),
        "status.podIP": status.get("podIP", ""),
        "status.nominatedNodeName": status.get("nominatedNodeName", ""),
    }


def _node_fields(node: Object) -> Mapping[str, str]:
    return {"spec.unschedulable": "true" if node.get("spec", {}).get("unschedulable") else "false"}


def _namespace_fields(namespace: Object) -> Mapping[str, str]:
    return {"status.phase": namespace.get("status", {}).get("phase", "")}


def _workload_fields(workload: Object) -> Mapping[str, str]:
    return {"status.replicas": str(workload.get("status", {}).get("replicas", 0))}


def _service_fields(service: Object) -> Mapping[str, str]:
    spec = service.get("spec", {})
    return {"spec.clusterIP": spec.get("clusterIP", ""), "spec.type": spec.get("type", "")}


PODS = Kind("", "v1", "pods", "Pod", has_status=True, returns_deleted=True, fields=_pod_fields)
NODES = Kind("", "v1", "nodes", "Node", is_namespaced=False, has_status=True, fields=_node_fields)
NAMESPACES = Kind(
    "", "v1", "namespaces", "Namespace", is_namespaced=False, has_status=True, returns_deleted=True,
    fields=_namespace_fields,
)  # fmt: skip
SERVICES = Kind(
    "", "v1", "services", "Service", has_status=True, creates_on_update=True, returns_deleted=True,
    fields=_service_fields,
)  # fmt: skip
REPLICATION_CONTROLLERS = Kind(
    "", "v1", "replicationcontrollers", "ReplicationController", has_status=True, has_generation=True,
    fields=_workload_fields,
)  # fmt: skip
REPLICA_SETS = Kind(
    "apps", "v1", "replicasets", "ReplicaSet", has_status=True, has_generation=True, fields=_workload_fields
)
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet", has_status=True, has_generation=True)
DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet", has_status=True, has_generation=True)
JOBS = Kind("batch", "v1", "jobs", "Job", has_status=True, has_generation=True)
CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", has_status=True, returns_deleted=True)
VOLUMES = Kind(
    "", "v1", "persistentvolumes", "PersistentVolume", is_namespaced=False, has_status=True, returns_deleted=True
)
STORAGE_CLASSES = Kind(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", is_namespaced=False, returns_deleted=True
)
CSI_NODES = Kind(
    "storage.k8s.io", "v1", "csinodes", "CSINode", is_namespaced=False, updates_unconditionally=False,
    returns_deleted=True,
)  # fmt: skip
CSI_DRIVERS = Kind(
    "storage.k8s.io", "v1", "csidrivers", "CSIDriver", is_namespaced=False, updates_unconditionally=False,
    returns_deleted=True,
)  # fmt: skip
CAPACITIES = Kind("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", updates_unconditionally=False)
ATTACHMENTS = Kind(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", is_namespaced=False, has_status=True,
    updates_unconditionally=False, returns_deleted=True,
)  # fmt: skip
BUDGETS = Kind(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", has_status=True, has_generation=True,
    updates_unconditionally=False,
)  # fmt: skip
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease", creates_on_update=True, updates_unconditionally=False)
EVENTS = Kind("events.k8s.io", "v1", "events", "Event", creates_on_update=True)
CORE_EVENTS = Kind("", "v1", "events", "Event", creates_on_update=True)
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", is_namespaced=False)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap")

KINDS = (
    PODS, NODES, NAMESPACES, SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS, CLAIMS,
    VOLUMES, STORAGE_CLASSES, CSI_NODES, CSI_DRIVERS, CAPACITIES, ATTACHMENTS, BUDGETS, LEASES, EVENTS, CORE_EVENTS,
    PRIORITY_CLASSES, CONFIG_MAPS,
)  # fmt: skip

BY_PATH = {(kind.group, kind.version, kind.plural): kind for kind in KINDS}

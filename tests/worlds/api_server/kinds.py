"""The kinds that the model serves, and how each departs from the rule (the strategies in kubernetes/pkg/registry)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Object = dict[str, Any]
Fields = Mapping[str, Callable[[Object], str]]


@dataclass(frozen=True, eq=False)
class Kind:
    """One resource of the API.

    - `has_status`: status is written through the subresource alone
    - `has_generation`: metadata.generation counts the changes of the spec
    - `creates_on_update`: a PUT makes an object that is not there
    - `updates_unconditionally`: a PUT needs no resource version
    - `returns_deleted`: the answer to a DELETE is the object, not a Status
    - `fields`: what a field selector may name besides metadata.name and metadata.namespace, and how it is read
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
    fields: Fields = field(default_factory=dict)

    @property
    def qualified(self) -> str:
        """The plural with its group, as error texts have it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def _text(part: str, name: str) -> Callable[[Object], str]:
    return lambda value: value.get(part, {}).get(name, "")


def _flag(part: str, name: str) -> Callable[[Object], str]:
    return lambda value: "true" if value.get(part, {}).get(name) else "false"


_POD_FIELDS: Final[Fields] = {
    "spec.nodeName": _text("spec", "nodeName"),
    "spec.restartPolicy": _text("spec", "restartPolicy"),
    "spec.schedulerName": _text("spec", "schedulerName"),
    "spec.serviceAccountName": _text("spec", "serviceAccountName"),
    "spec.hostNetwork": _flag("spec", "hostNetwork"),
    "status.phase": _text("status", "phase"),
    "status.podIP": _text("status", "podIP"),
    "status.nominatedNodeName": _text("status", "nominatedNodeName"),
}
_NODE_FIELDS: Final[Fields] = {"spec.unschedulable": _flag("spec", "unschedulable")}
_NAMESPACE_FIELDS: Final[Fields] = {"status.phase": _text("status", "phase")}
_WORKLOAD_FIELDS: Final[Fields] = {"status.replicas": lambda value: str(value.get("status", {}).get("replicas", 0))}
_SERVICE_FIELDS: Final[Fields] = {"spec.clusterIP": _text("spec", "clusterIP"), "spec.type": _text("spec", "type")}

PODS = Kind("", "v1", "pods", "Pod", has_status=True, returns_deleted=True, fields=_POD_FIELDS)
NODES = Kind("", "v1", "nodes", "Node", is_namespaced=False, has_status=True, fields=_NODE_FIELDS)
NAMESPACES = Kind(
    "", "v1", "namespaces", "Namespace", is_namespaced=False, has_status=True, returns_deleted=True,
    fields=_NAMESPACE_FIELDS,
)  # fmt: skip
SERVICES = Kind(
    "", "v1", "services", "Service", has_status=True, creates_on_update=True, returns_deleted=True,
    fields=_SERVICE_FIELDS,
)  # fmt: skip
REPLICATION_CONTROLLERS = Kind(
    "", "v1", "replicationcontrollers", "ReplicationController", has_status=True, has_generation=True,
    fields=_WORKLOAD_FIELDS,
)  # fmt: skip
REPLICA_SETS = Kind(
    "apps", "v1", "replicasets", "ReplicaSet", has_status=True, has_generation=True, fields=_WORKLOAD_FIELDS
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

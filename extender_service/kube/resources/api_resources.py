"""The API resources that this service reads: their URL paths and decoders."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeVar
from urllib.parse import quote

import msgspec

from extender_service.kube.parsing.decoder import Decoder
from extender_service.kube.types.core import Metadata, Node, Object, Pod
from extender_service.kube.types.keys import ApiObject
from extender_service.kube.types.policy import PodDisruptionBudget
from extender_service.kube.types.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from extender_service.kube.types.watched_pods import WatchedPod
from extender_service.kube.types.workloads import Namespace, ReplicaSet, ReplicationController, Service, StatefulSet

T = TypeVar("T", bound=ApiObject)

_UNRESERVED = re.compile(r"[A-Za-z0-9\-._~]*")


class WrittenPod(Object):
    """Of a pod as it is after a write, its metadata alone."""

    metadata: Metadata = Metadata()


class ListMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """metav1.ListMeta. `next_token` (`continue` in JSON) requests the next page; it is empty on the last page."""

    resource_version: str = ""
    next_token: str = msgspec.field(name="continue", default="")


class ObjectList(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A page of a list, such as v1.PodList."""

    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] = ()


class Frame(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """metav1.WatchEvent, one line of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: T


@dataclass(frozen=True)
class Resource(Generic[T]):
    """A resource of the API: group (empty for the core group), version, plural name, and the type of its objects."""

    group: str
    version: str
    plural: str
    type: type[T]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, of an object in it, or of that object's subresource."""
        root, plural = self._parts
        path = f"{root}/namespaces/{_quoted(namespace)}/{plural}" if namespace else f"{root}/{plural}"
        if name:
            path += f"/{_quoted(name)}"
        return f"{path}/{_quoted(subresource)}" if subresource else path

    @cached_property
    def _parts(self) -> tuple[str, str]:
        group = f"/apis/{_quoted(self.group)}" if self.group else "/api"
        return f"{group}/{_quoted(self.version)}", _quoted(self.plural)

    @cached_property
    def decoder(self) -> Decoder[T]:
        """The decoder of one object, made at the first use."""
        return Decoder(self.type)

    @cached_property
    def list_decoder(self) -> Decoder[ObjectList[T]]:
        """The decoder of a page of a list, made at the first use."""
        return Decoder(ObjectList[self.type])  # type: ignore[name-defined]

    @cached_property
    def frame_decoder(self) -> Decoder[Frame[T]]:
        """The decoder of a line of a watch, made at the first use."""
        return Decoder(Frame[self.type])  # type: ignore[name-defined]


def _quoted(text: str) -> str:
    # `quote` takes ten times as long, and nearly all names need none.
    return text if _UNRESERVED.fullmatch(text) else quote(text, safe="")


PODS = Resource("", "v1", "pods", Pod)
WATCHED_PODS = Resource("", "v1", "pods", WatchedPod)
WRITTEN_PODS = Resource("", "v1", "pods", WrittenPod)
NODES = Resource("", "v1", "nodes", Node)
NAMESPACES = Resource("", "v1", "namespaces", Namespace)
SERVICES = Resource("", "v1", "services", Service)
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", ReplicationController)
REPLICA_SETS = Resource("apps", "v1", "replicasets", ReplicaSet)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", StatefulSet)
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", PodDisruptionBudget)
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", PersistentVolume)
PERSISTENT_VOLUME_CLAIMS = Resource("", "v1", "persistentvolumeclaims", PersistentVolumeClaim)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", StorageClass)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", CSINode)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", CSIDriver)
CSI_STORAGE_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", CSIStorageCapacity)
VOLUME_ATTACHMENTS = Resource("storage.k8s.io", "v1", "volumeattachments", VolumeAttachment)

"""Objects in memory, in the API server's place: what is written here is shown to the cluster at once."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
from msgspec import structs

from extender_service.cluster.owners.owners import WORKLOADS
from extender_service.cluster.sources.stores import stores
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import STORAGE
from extender_service.kube.api_errors import ApiError, ApiStatus
from extender_service.kube.resources.api_resources import PODS, Resource
from extender_service.kube.types.core import Node, Object, ObjectMeta, Pod, pod_name
from extender_service.kube.types.keys import ApiObject, Key, key_of
from extender_service.kube.types.pending_pods import PendingPodCondition
from extender_service.kube.types.pods import TERMINAL_PHASES, pod_uid
from extender_service.kube.types.storage import (
    BIND_COMPLETED_ANNOTATION,
    ClaimReference,
    CSISource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Phase,
    StorageClass,
)
from extender_service.kube.watching.store import Store


class MemoryApi:
    """Keeps nodes and pods, and stands in for the API server where pods, volumes and claims are written.

    `changes` counts what could let another pod fit: pods bound or deleted, objects added, volumes and claims written.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        read = [(resource, store) for resource, store, _ in stores(cluster, (*WORKLOADS, *STORAGE), PODS)]
        self._resources = {resource.type: resource for resource, _ in read}
        self._stores: dict[type[Object], Store[Any]] = {resource.type: store for resource, store in read}
        self.changes = 0

    @property
    def nodes(self) -> list[Node]:
        """The nodes, in the order in which they came."""
        return list(self._nodes.values())

    @property
    def pods(self) -> list[Pod]:
        """The pods, in the order in which they came."""
        return list(self._pods.values())

    def handle_with(self, handler: Callable[[Resource[Any], Store[Any]], Store[Any]]) -> None:
        """Let each object be taken in by what `handler` returns for its store, as ApiServer.handle_with does."""
        self._stores = {kind: handler(self._resources[kind], store) for kind, store in self._stores.items()}

    def put(self, item: Object) -> None:
        """Add or replace an object. Raises TypeError for a kind that scheduling does not read."""
        store = self._store_of(item)
        self.changes += 1
        if isinstance(item, Node):
            self._nodes[item.metadata.name] = item
        elif isinstance(item, Pod):
            self._pods[pod_name(item)] = item
            if item.status.phase in TERMINAL_PHASES:  # a watch does not show it
                store.remove(key_of(item))
                return
        store.apply(item)

    def remove(self, item: Object) -> None:
        """Delete an object; nothing happens if there is none of its kind and name. Raises TypeError as `put` does."""
        store = self._store_of(item)
        key = _key(item)
        self.changes += 1
        if isinstance(item, Node):
            self._nodes.pop(key[1], None)
        elif isinstance(item, Pod):
            self._pods.pop(pod_name(item), None)
        store.remove(key)

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod, None if there is none."""
        return self._pods.get(f"{namespace}/{name}")

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod. Raises ApiError as an API server would."""
        pod = self._pod(namespace, name, uid)
        if not self._cluster.nodes.is_node(node_name):
            raise ApiError(ApiStatus(404, "NotFound", f'nodes "{node_name}" not found'))
        self.put(structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name)))

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> str:
        """Write conditions and the nominated node of a pod, and return its resource version. Raises ApiError as an API
        server would."""
        pod = self._pod(namespace, name, patch["metadata"]["uid"])
        status = pod.status
        conditions = {condition.type: condition for condition in status.conditions}
        for changed in patch["status"].get("conditions", ()):
            conditions[changed["type"]] = msgspec.convert(
                {field: value for field, value in changed.items() if value is not None}, PendingPodCondition
            )
        nominated = patch["status"].get("nominatedNodeName", status.nominated_node_name)
        status = structs.replace(status, conditions=tuple(conditions.values()), nominated_node_name=nominated or "")
        metadata = structs.replace(pod.metadata, resource_version=f"{pod.metadata.resource_version}+")
        written = structs.replace(pod, metadata=metadata, status=status)
        self._pods[f"{namespace}/{name}"] = written
        self._stores[Pod].apply(written)
        return metadata.resource_version

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete a pod; it is gone at once. Raises ApiError as an API server would."""
        self.remove(self._pod(namespace, name, uid))

    async def write_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Bind a volume to the claim that it names; there is no volume controller that would."""
        reference = volume.spec.claim_ref
        claim = None
        if reference is not None:
            claim = self._cluster.storage.find(PersistentVolumeClaim, (reference.namespace, reference.name))
        written = structs.replace(volume, status=Phase("Bound"))
        self.put(written)
        if claim is not None:
            self.put(_bound(claim, volume.metadata.name))
        return written

    async def write_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Make a volume for a claim, and bind the two; there is no provisioner that would."""
        volume = _made_for(claim, self._cluster.storage.find(StorageClass, ("", claim.class_name)))
        bound = _bound(claim, volume.metadata.name)
        self.put(volume)
        self.put(bound)
        return bound

    def _store_of(self, item: Object) -> Store[Any]:
        store = self._stores.get(type(item))
        if store is None:
            kinds = ", ".join(sorted(kind.__name__ for kind in self._stores))
            raise TypeError(f"{type(item).__name__} is not one of the kinds that scheduling reads: {kinds}")
        return store

    def _pod(self, namespace: str, name: str, uid: str) -> Pod:
        pod = self._pods.get(f"{namespace}/{name}")
        if pod is None:
            raise ApiError(ApiStatus(404, "NotFound", f'pods "{name}" not found'))
        if uid not in ("", pod_uid(pod)):
            raise ApiError(ApiStatus(409, "Conflict", f"the UID of pod {name} is {pod_uid(pod)}, not {uid}"))
        return pod


def _key(item: Object) -> Key:
    return key_of(cast("ApiObject", item))  # each kind that has a store has metadata


def _bound(claim: PersistentVolumeClaim, volume_name: str) -> PersistentVolumeClaim:
    annotations = {**claim.metadata.annotations, BIND_COMPLETED_ANNOTATION: "yes"}
    return structs.replace(
        claim,
        metadata=structs.replace(claim.metadata, annotations=annotations),
        spec=structs.replace(claim.spec, volume_name=volume_name),
        status=Phase("Bound"),
    )


def _made_for(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> PersistentVolume:
    """A volume of the class's driver, as large as the claim asks, and within reach of all nodes."""
    # A claim that a file gives no UID has namespace/name in its place.
    name = f"pvc-{claim.metadata.uid.replace('/', '-')}"
    spec = PersistentVolumeSpec(
        csi=CSISource(storage_class.provisioner if storage_class is not None else "", name),
        capacity=claim.spec.resources.requests,
        access_modes=claim.spec.access_modes,
        claim_ref=ClaimReference(*key_of(claim), claim.metadata.uid),
        storage_class_name=claim.class_name,
        volume_mode=claim.spec.volume_mode,
    )
    return PersistentVolume(ObjectMeta(name=name), spec, Phase("Bound"))

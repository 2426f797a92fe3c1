"""What takes objects of the API server into the cluster: a store for each resource that is read."""

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from extender_service.cluster.owners.owners import Workload
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.kube.parsing.decoder import DecodeError
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.resources.api_resources import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    WATCHED_PODS,
    Resource,
)
from extender_service.kube.types.core import Node, Object
from extender_service.kube.types.keys import Key
from extender_service.kube.types.watched_pods import AnyPod
from extender_service.kube.watching.store import Store

log = logging.getLogger(__name__)

# As in kube-scheduler, pods that have ended are not even sent.
NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"

_WORKLOADS: tuple[Resource[Any], ...] = (
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
)
_STORAGE: tuple[Resource[Any], ...] = (
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)


class NodeStore:
    """Takes nodes into the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def apply(self, obj: Node) -> None:
        """Add or update a node."""
        try:
            self._cluster.apply_node(obj)
        except QuantityError as error:
            _warn(obj.metadata.name, error)

    def remove(self, key: Key) -> None:
        """Forget a node."""
        self._cluster.remove_node(key[1])

    def keys(self) -> Iterable[Key]:
        """The nodes that the cluster has."""
        return [("", name) for name in self._cluster.node_names()]


class PodStore:
    """Takes pods into the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def apply(self, obj: AnyPod) -> None:
        """Add or update a pod."""
        try:
            self._cluster.apply_pod(obj)
        except (QuantityError, DecodeError) as error:
            _warn(f"{obj.metadata.namespace}/{obj.metadata.name}", error)

    def remove(self, key: Key) -> None:
        """Forget a pod."""
        self._cluster.remove_pod(key)

    def keys(self) -> Iterable[Key]:
        """The pods that the cluster has."""
        return self._cluster.pod_keys()


class WorkloadStore:
    """Takes Services, controllers, namespaces or disruption budgets into the cluster."""

    def __init__(self, cluster: Cluster, kind: type[Workload]) -> None:
        self._workloads = cluster.workloads
        self._kind = kind

    def apply(self, obj: Workload) -> None:
        """Add or update an object."""
        self._workloads.apply(obj)

    def remove(self, key: Key) -> None:
        """Forget an object."""
        self._workloads.remove(self._kind, key)

    def keys(self) -> Iterable[Key]:
        """The objects that the cluster has."""
        return self._workloads.keys(self._kind)


class StorageStore:
    """Takes volumes, claims, or what else is known of storage into the cluster."""

    def __init__(self, cluster: Cluster, kind: type[StorageObject]) -> None:
        self._cluster = cluster
        self._kind = kind

    def apply(self, obj: StorageObject) -> None:
        """Add or update an object."""
        try:
            self._cluster.apply_storage(obj)
        except QuantityError as error:
            _warn(obj.metadata.name, error)

    def remove(self, key: Key) -> None:
        """Forget an object."""
        self._cluster.remove_storage(self._kind, key)

    def keys(self) -> Iterable[Key]:
        """The objects that the cluster has."""
        return self._cluster.storage.keys(self._kind)


def stores(
    cluster: Cluster,
    reads: Collection[type[Object]],
    pods: Resource[Any] = WATCHED_PODS,
    nodes: Resource[Any] = NODES,
) -> Iterator[tuple[Resource[Any], Store[Any], str]]:
    """Yield what is read of the API server: each resource, what takes it in, and the field selector it is read by."""
    yield nodes, NodeStore(cluster), ""
    yield pods, PodStore(cluster), NOT_ENDED
    for resource in _WORKLOADS:
        if resource.type in reads:
            yield resource, WorkloadStore(cluster, resource.type), ""
    for resource in _STORAGE:
        if resource.type in reads:
            yield resource, StorageStore(cluster, resource.type), ""


def _warn(name: str, error: QuantityError | DecodeError) -> None:
    # The API server validates them; one that slips through must not stop the watch of everything else.
    log.warning("a malformed object is left as it was", extra={"object": name, "error": str(error)})

"""A cluster that an API server describes: lists and watches, and the few things that are read and written by name."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from random import Random
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from extender_service.cluster.owners.owners import Workload
from extender_service.cluster.sources.binding_right import BindingRight
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.kube.api_errors import ApiError, KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.connector import GONE_SECONDS
from extender_service.kube.credentials.errors import CredentialsError
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
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    WATCHED_PODS,
    Resource,
)
from extender_service.kube.types.core import Node, Object, Pod
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from extender_service.kube.types.watched_pods import AnyPod
from extender_service.kube.watching.reflector import Limits, Reflector, Store
from extender_service.kube.watching.watch_state import ServerWatches, WatchState
from extender_service.seams import RANDOM, WallClock

log = logging.getLogger(__name__)

_Written = TypeVar("_Written", PersistentVolume, PersistentVolumeClaim)

# As in kube-scheduler, pods that have ended are not even sent.
NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"

# Decisions must soon see what happens to nodes and pods: their watches show every ten seconds that they live, in turns.
# Those of the other kinds, which may be a dozen, only once a minute, by a bookmark where the API server sends any.
# While it is down, the other kinds are tried more rarely, too: once it answers one watch, all are tried.
_SOON = (NODES.plural, PODS.plural)
_SOON_SECONDS = 10
_LATER = Limits(watch_seconds=75, long_watch_seconds=600, late_seconds=10.0, wait_seconds=2.5)

# When kube-scheduler was made to try the pod again, RFC 3339.
ASKED_AGAIN = "extender-service/asked-again"

# The caller waits for the comparison, and may ask for another one.
_MOST_SILENT_SECONDS = 6.0

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


class ApiServer:
    """Keeps a cluster equal to what the API server says: its nodes and pods, and the other kinds in `reads`.

    While all is well, no kind's state is older than `stale_limit_seconds`.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: KubeClient,
        reads: Collection[type[Object]] = (),
        *,
        pods: Resource[Any] = WATCHED_PODS,
        nodes: Resource[Any] = NODES,
        binding_right: BindingRight | None = None,
        stale_limit_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: WallClock = time.time,
        random: Random = RANDOM,
    ) -> None:
        """`pods` and `nodes` decode these objects.

        `binding_right` is asked about once everything has been listed; None if pods are not bound here.
        """
        self._client = client
        self._binding_right = binding_right
        self._wall_clock = wall_clock
        self._cluster = cluster
        self._reads: set[type[Object]] = set()
        self._stale_limit_seconds = stale_limit_seconds
        self._clock = clock
        self._random = random
        self._server = ServerWatches(clock)
        self._reflectors: dict[str, Reflector[Any]] = {}
        self._registered: dict[str, Reflector[Any]] = {}
        self._states: dict[str, WatchState] = {}
        self._read(reads, pods, nodes)

    @property
    def states(self) -> Mapping[str, WatchState]:
        """How far each resource can be trusted, by name."""
        return MappingProxyType(self._states)

    def also_read(self, kinds: Collection[type[Object]]) -> None:
        """Keep more kinds, besides those in `reads`. To be called before `handle_with`."""
        self._read(kinds, WATCHED_PODS, NODES)

    def also_watch(self, name: str, resource: Resource[Any], store: Store[Any]) -> None:
        """Watch a kind on which nothing here depends: it is waited for only until the API server has answered once.

        `name` is plural.version.group. To be called before `follow`.
        """
        self._registered[name] = self._reflector(name, resource, store)

    def _read(self, kinds: Collection[type[Object]], pods: Resource[Any], nodes: Resource[Any]) -> None:
        self._reads |= set(kinds)
        for resource, store, field_selector in stores(self._cluster, self._reads, pods, nodes):
            if resource.plural not in self._reflectors:
                self._reflectors[resource.plural] = self._reflector(resource.plural, resource, store, field_selector)
        self._reflectors[pods.plural].on_listed = self._cluster.end_unlisted_placements

    def _reflector(
        self, name: str, resource: Resource[Any], store: Store[Any], field_selector: str = ""
    ) -> Reflector[Any]:
        reflector = Reflector(
            self._client,
            resource,
            store,
            field_selector=field_selector,
            limits=_limits(resource, self._stale_limit_seconds),
            server=self._server,
            clock=self._clock,
            random=self._random,
        )
        self._states[name] = reflector.state
        return reflector

    def handle_with(self, handler: Callable[[Resource[Any], Store[Any]], Store[Any]]) -> None:
        """Let each resource be taken in by what `handler` returns for its store, from before the first list on."""
        for reflector in self._reflectors.values():
            reflector.store = handler(reflector.resource, reflector.store)

    async def wait_synced(self) -> None:
        """Return once everything has been listed; of what is watched besides, what can be."""
        for reflector in self._reflectors.values():
            await reflector.wait_synced()
        for reflector in self._registered.values():
            await reflector.wait_tried()

    async def follow(self) -> None:
        """List and watch for as long as this runs; trouble is logged, shows in the states, and is tried again."""
        async with asyncio.TaskGroup() as tasks:
            for name, reflector in self._registered.items():
                tasks.create_task(_run(reflector))
                tasks.create_task(_report_failure(name, reflector))
            for reflector in self._reflectors.values():
                tasks.create_task(_run(reflector))
            if self._binding_right is not None:
                await self.wait_synced()
                await self._binding_right.follow()

    async def list_cluster(self) -> Cluster:
        """Return a cluster made from scratch of what the API server lists now. Raises KubeError, CredentialsError."""
        listed = Cluster(self._cluster.rules)
        for resource, store, field_selector in stores(listed, self._reads):
            async for page in self._client.list_pages(
                resource, field_selector=field_selector, silence_seconds=_MOST_SILENT_SECONDS
            ):
                for item in page.items:
                    store.apply(item)
        return listed

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod as it is now, None if there is none. Raises KubeError."""
        try:
            return await self._client.get(PODS, namespace, name)
        except ApiError as error:
            if error.status_code == 404:
                return None
            raise
        except CredentialsError as error:
            raise KubeError(str(error)) from error

    async def get_pod_json(self, namespace: str, name: str) -> bytes:
        """Return the JSON of a pod as it is now. Raises KubeError."""
        try:
            return await self._client.get_json(PODS, namespace, name)
        except CredentialsError as error:
            raise KubeError(str(error)) from error

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        """Bind a pod, with its UID as precondition. Raises KubeError; the pod may be bound all the same."""
        try:
            await self._client.bind(namespace, name, uid, node_name)
        except ApiError as error:
            if error.status_code == 403 and self._binding_right is not None:
                self._binding_right.doubt()
            raise
        except CredentialsError as error:
            raise KubeError(str(error)) from error

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        """Apply a strategic merge patch to a pod's status. Raises KubeError."""
        try:
            await self._client.patch_unread(PODS, namespace, name, patch, subresource="status")
        except CredentialsError as error:
            raise KubeError(str(error)) from error

    def held_back_seconds(self) -> float:
        """Return how long the client's rate limit would hold back a write now."""
        return self._client.held_back_seconds()

    async def touch_pod(self, namespace: str, name: str, uid: str) -> None:
        """Change a pod's annotation ASKED_AGAIN, with its UID as precondition, so that kube-scheduler tries the pod
        again. Raises KubeError."""
        at = datetime.fromtimestamp(self._wall_clock(), UTC).isoformat()
        metadata = {"uid": uid, "annotations": {ASKED_AGAIN: at}}
        try:
            await self._client.patch_unread(PODS, namespace, name, {"metadata": metadata})
        except CredentialsError as error:
            raise KubeError(str(error)) from error

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete a pod, with its UID as precondition. Raises KubeError."""
        try:
            await self._client.delete(PODS, namespace, name, uid)
        except CredentialsError as error:
            raise KubeError(str(error)) from error

    async def write_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Write a volume's annotations and claim reference, if it has not changed since. Raises KubeError."""
        spec = {} if volume.spec.claim_ref is None else {"claimRef": _claim_reference(volume.spec.claim_ref)}
        return await self._patch(PERSISTENT_VOLUMES, volume, {"spec": spec})

    async def write_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Write a claim's annotations, if it has not changed since. Raises KubeError."""
        return await self._patch(PERSISTENT_VOLUME_CLAIMS, claim, {})

    async def _patch(self, resource: Resource[_Written], obj: _Written, changes: Mapping[str, Any]) -> _Written:
        # The resource version makes the API server refuse (409) what follows from an older state.
        metadata = {"resourceVersion": obj.metadata.resource_version, "annotations": obj.metadata.annotations}
        try:
            return await self._client.patch(resource, *key_of(obj), {"metadata": metadata, **changes})
        except CredentialsError as error:
            raise KubeError(str(error)) from error


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


async def _run(reflector: Reflector[Any]) -> None:
    """Run a reflector until this task is cancelled. Raises what the store raises, CancelledError as a RuntimeError.

    A TaskGroup ignores a task that ends with CancelledError: the watch would be over, and all else would go on.
    """
    try:
        await reflector.run()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError(f"{reflector.resource.plural}: a change cannot be taken in") from error


async def _report_failure(name: str, reflector: Reflector[Any]) -> None:
    await reflector.wait_tried()
    if not reflector.state.synced:
        log.warning(
            "a kind of a plugin's retry_on cannot be listed, so its changes wake no pod; this is tried again every few "
            "seconds: check that the API server serves it, and that this program may list and watch it",
            extra={"kind": name, "problem": reflector.state.last_error},
        )


def _limits(resource: Resource[Any], stale_limit_seconds: float) -> Limits:
    seconds = min(_SOON_SECONDS, int(stale_limit_seconds / 3))
    if resource.plural in _SOON or stale_limit_seconds <= GONE_SECONDS:
        return Limits(watch_seconds=seconds, phase_seconds=0.0 if resource.plural == NODES.plural else seconds / 2)
    return _LATER


def _claim_reference(reference: ClaimReference) -> dict[str, str]:
    """A v1.ObjectReference; what is not known of the claim is left out."""
    known = {name: value for name, value in msgspec.to_builtins(reference).items() if value}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **known}


def _warn(name: str, error: QuantityError | DecodeError) -> None:
    # The API server validates them; one that slips through must not stop the watch of everything else.
    log.warning("a malformed object is left as it was", extra={"object": name, "error": str(error)})

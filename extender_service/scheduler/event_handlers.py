"""What the watch shows, taken into the cluster and reported to the queue (eventhandlers.go).

Each handler is the store of one resource: it takes an object into the cluster first, so that what the queue activates
is decided on the new state.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from extender_service.cluster.sources.api_server import NodeStore, PodStore, StorageStore
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.framework.cluster_event import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    ActionType,
    ClusterEvent,
)
from extender_service.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    node_changes,
    pod_changes,
)
from extender_service.framework.profiles import Profiles
from extender_service.framework.queueing_hints import QueueingHints
from extender_service.kube.api_resources import Resource
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Node, Pod
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from extender_service.kube.types.watched_pods import AnyPod
from extender_service.kube.watching.reflector import Store
from extender_service.queue.pre_checks import pre_check_for_node
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.assigned_pods import assigned_pod
from extender_service.scheduler.node_order import NodeOrder
from extender_service.scheduler.pod_lister import PodLister

# The resource of an event, and how its label begins.
_STORAGE: Final[Mapping[type[StorageObject], tuple[str, str]]] = {
    PersistentVolume: (PERSISTENT_VOLUME, "Pv"),
    PersistentVolumeClaim: (PERSISTENT_VOLUME_CLAIM, "Pvc"),
    StorageClass: (STORAGE_CLASS, "StorageClass"),
    CSINode: (CSI_NODE, "CSINode"),
    CSIDriver: (CSI_DRIVER, "CSIDriver"),
    CSIStorageCapacity: (CSI_STORAGE_CAPACITY, "CSIStorageCapacity"),
}
_WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"


def storage_kinds(hints: Iterable[QueueingHints]) -> frozenset[type[StorageObject]]:
    """Return the kinds of storage whose changes some plugin has registered, whether or not any plugin reads them."""
    registered = {event.resource for by_event in hints for event in by_event}
    return frozenset(kind for kind, (resource, _) in _STORAGE.items() if resource in registered)


class EventHandlers:
    """Makes the handler of each resource. `uses_hints` is the feature gate SchedulerQueueingHints.

    `order`, if given, follows the nodes.
    """

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        profiles: Profiles,
        pending: PodLister,
        *,
        uses_hints: bool,
        order: NodeOrder | None = None,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._profiles = profiles
        self._pending = pending
        self._uses_hints = uses_hints
        self._order = order

    def handler(self, resource: Resource[Any], store: Store[Any]) -> Store[Any]:
        """Return what takes in the objects of a resource, instead of the cluster's own store."""
        if isinstance(store, PodStore):
            return _Pods(store, self._cluster, self._queue, self._profiles, self._pending, uses_hints=self._uses_hints)
        if isinstance(store, NodeStore):
            return _Nodes(store, self._cluster, self._queue, self._order)
        if isinstance(store, StorageStore):
            return _Storage(store, self._cluster, self._queue, resource.type)
        return store  # no event of kube-scheduler is about Services, owners or namespaces


class _Pods:
    def __init__(
        self,
        store: PodStore,
        cluster: Cluster,
        queue: SchedulingQueue,
        profiles: Profiles,
        pending: PodLister,
        *,
        uses_hints: bool,
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._queue = queue
        self._profiles = profiles
        self._pending = pending
        self._uses_hints = uses_hints

    def keys(self) -> Iterable[Key]:
        return self._store.keys()

    def apply(self, obj: AnyPod) -> None:
        if obj.spec.node_name:
            self._apply_assigned(obj)
            return
        # After a list, a pod may have the name of another one that is gone, and was of another scheduler or on a node.
        before = self._assigned(key_of(obj))
        if isinstance(obj, Pod) and self._profiles.has(obj.spec.scheduler_name):
            self._apply_pending(obj)
        else:
            self._store.apply(obj)
            self._forget_pending("/".join(key_of(obj)))
        if before is not None:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, before, None)

    def remove(self, key: Key) -> None:
        self._forget_pending("/".join(key))
        before = self._assigned(key)
        self._store.remove(key)
        if before is not None:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, before, None)

    def _apply_pending(self, pod: Pod) -> None:
        self._store.apply(pod)
        old = self._pending.put(pod)
        if old is None:
            self._queue.add(pod)
        elif old.metadata.resource_version != pod.metadata.resource_version and not self._is_assumed(pod):
            self._queue.update(old, pod)

    def _apply_assigned(self, obj: AnyPod) -> None:
        key = key_of(obj)
        before = self._assigned(key)
        self._store.apply(obj)
        self._forget_pending("/".join(key))
        now = self._assigned(key)
        if now is None:
            if before is not None:  # it has ended
                self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, before, None)
        elif before is None:
            self._report_added(now)
        else:
            for event in pod_changes(before, now):
                self._report_updated(before, now, event)

    def _report_added(self, pod: Pod) -> None:
        # Without hints, kube-scheduler asks only pods with affinity or topology spread.
        if self._uses_hints:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, pod)
        else:
            self._queue.assigned_pod_added(pod)

    def _report_updated(self, old: Pod, new: Pod, event: ClusterEvent) -> None:
        if self._uses_hints:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_UPDATE, old, new)
        else:
            self._queue.assigned_pod_updated(old, new, event)

    def _forget_pending(self, key: str) -> None:
        """Take a pod out of the queue that is gone or on a node now; its place, if it waits in Permit, is free."""
        pod = self._pending.take(key)
        if pod is None:
            return
        self._queue.delete(pod)
        waiting = self._profiles.of(pod).waiting_pods.get(pod_uid(pod))
        if waiting is not None:
            waiting.reject("", "removed")
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)

    def _assigned(self, key: Key) -> Pod | None:
        return assigned_pod(self._cluster, key)

    def _is_assumed(self, pod: Pod) -> bool:
        return self._cluster.placements.get(pod_uid(pod)) is not None


class _Nodes:
    def __init__(self, store: NodeStore, cluster: Cluster, queue: SchedulingQueue, order: NodeOrder | None) -> None:
        self._store = store
        self._cluster = cluster
        self._queue = queue
        self._order = order

    def keys(self) -> Iterable[Key]:
        return self._store.keys()

    def apply(self, obj: Node) -> None:
        name = obj.metadata.name
        old = self._cluster.nodes.node(name)
        self._store.apply(obj)
        new = self._cluster.nodes.node(name)
        if new is None:
            return
        if self._order is not None:
            self._order.apply(new)
        if old is None:
            self._queue.move_all_to_active_or_backoff(NODE_ADD, None, new, pre_check_for_node(self._cluster, name))
            return
        try:
            events = node_changes(old, new)
        except QuantityError:
            return  # the store has logged it
        for event in events:
            self._queue.move_all_to_active_or_backoff(event, old, new, pre_check_for_node(self._cluster, name))

    def remove(self, key: Key) -> None:
        # kube-scheduler reports no event: a node less helps no pod.
        self._store.remove(key)
        if self._order is not None:
            self._order.remove(key[1])


class _Storage:
    def __init__(
        self, store: StorageStore, cluster: Cluster, queue: SchedulingQueue, kind: type[StorageObject]
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._queue = queue
        self._kind = kind
        self._resource, self._label = _STORAGE[kind]

    def keys(self) -> Iterable[Key]:
        return self._store.keys()

    def apply(self, obj: StorageObject) -> None:
        old = self._cluster.storage.find(self._kind, key_of(obj))
        self._store.apply(obj)
        if old is not None:
            self._move(ActionType.UPDATE, "Update", old, obj)
        elif not isinstance(obj, StorageClass) or obj.volume_binding_mode == _WAIT_FOR_FIRST_CONSUMER:
            self._move(ActionType.ADD, "Add", None, obj)

    def remove(self, key: Key) -> None:
        old = self._cluster.storage.find(self._kind, key)
        self._store.remove(key)
        if old is not None and self._kind is not StorageClass:
            self._move(ActionType.DELETE, "Delete", old, None)

    def _move(self, action: ActionType, verb: str, old: StorageObject | None, new: StorageObject | None) -> None:
        event = ClusterEvent(self._resource, action, f"{self._label}{verb}")
        self._queue.move_all_to_active_or_backoff(event, old, new)

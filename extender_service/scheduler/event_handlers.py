"""What the watch shows, taken into the cluster and reported to the queue (eventhandlers.go).

Each handler is the store of one resource: it takes an object into the cluster first, so that what the queue activates
is decided on the new state.
"""

from collections.abc import Iterable, Mapping, Sequence
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
    VOLUME_ATTACHMENT,
    ActionType,
    ClusterEvent,
)
from extender_service.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_UPDATE,
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
    VolumeAttachment,
)
from extender_service.kube.types.watched_pods import AnyPod
from extender_service.kube.watching.reflector import Store
from extender_service.queue.pre_checks import pre_check_for_node
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.assigned_pods import assigned_pod
from extender_service.scheduler.event_timing import UNTIMED, EventTiming, timed
from extender_service.scheduler.node_order import NodeOrder
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduler.pod_resource_metrics import PodResourceMetrics

# The resource of an event, and how its label begins.
_STORAGE: Final[Mapping[type[StorageObject], tuple[str, str]]] = {
    PersistentVolume: (PERSISTENT_VOLUME, "Pv"),
    PersistentVolumeClaim: (PERSISTENT_VOLUME_CLAIM, "Pvc"),
    StorageClass: (STORAGE_CLASS, "StorageClass"),
    CSINode: (CSI_NODE, "CSINode"),
    CSIDriver: (CSI_DRIVER, "CSIDriver"),
    CSIStorageCapacity: (CSI_STORAGE_CAPACITY, "CSIStorageCapacity"),
    VolumeAttachment: (VOLUME_ATTACHMENT, "VolumeAttachment"),
}
_WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"

# What metrics call changes of pending pods that are no events to the queue.
UNSCHEDULED_POD_ADD: Final = "UnschedulablePodAdd"
UNSCHEDULED_POD_DELETE: Final = "UnschedulablePodDelete"


def storage_kinds(hints: Iterable[QueueingHints]) -> frozenset[type[StorageObject]]:
    """Return the kinds of storage whose changes some plugin has registered, whether or not any plugin reads them."""
    registered = {event.resource for by_event in hints for event in by_event}
    return frozenset(kind for kind, (resource, _) in _STORAGE.items() if resource in registered)


class EventHandlers:
    """Makes the handler of each resource. `uses_hints` is the feature gate SchedulerQueueingHints.

    `order`, if given, follows the nodes, and `resources` the pods. `timing` receives how long each event took.
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
        resources: PodResourceMetrics | None = None,
        timing: EventTiming = UNTIMED,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._profiles = profiles
        self._pending = pending
        self._uses_hints = uses_hints
        self._order = order
        self._resources = resources
        self._timing = timing

    def handler(self, resource: Resource[Any], store: Store[Any]) -> Store[Any]:
        """Return what takes in the objects of a resource, instead of the cluster's own store."""
        if isinstance(store, PodStore):
            return _Pods(
                store,
                self._cluster,
                self._queue,
                self._profiles,
                self._pending,
                self._resources,
                self._timing,
                uses_hints=self._uses_hints,
            )
        if isinstance(store, NodeStore):
            return _Nodes(store, self._cluster, self._queue, self._order, self._timing)
        if isinstance(store, StorageStore):
            return _Storage(store, self._cluster, self._queue, resource.type, self._timing)
        return store  # no event of kube-scheduler is about Services, owners or namespaces


class _Pods:
    def __init__(
        self,
        store: PodStore,
        cluster: Cluster,
        queue: SchedulingQueue,
        profiles: Profiles,
        pending: PodLister,
        resources: PodResourceMetrics | None,
        timing: EventTiming,
        *,
        uses_hints: bool,
    ) -> None:
        self.timing = timing
        self._store = store
        self._cluster = cluster
        self._queue = queue
        self._profiles = profiles
        self._pending = pending
        self._resources = resources
        self._uses_hints = uses_hints

    def keys(self) -> Iterable[Key]:
        return self._store.keys()

    @timed
    def apply(self, obj: AnyPod) -> Sequence[str]:
        labels = self._apply_assigned(obj) if obj.spec.node_name else self._apply_unassigned(obj)
        if self._resources is not None:
            self._resources.note(obj)
        return labels

    @timed
    def remove(self, key: Key) -> Sequence[str]:
        was_pending = self._forget_pending("/".join(key))
        before = self._assigned(key)
        self._store.remove(key)
        if before is None:
            return (UNSCHEDULED_POD_DELETE,) if was_pending else ()
        self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, before, None)
        return (ASSIGNED_POD_DELETE.label,)

    def _apply_unassigned(self, obj: AnyPod) -> Sequence[str]:
        # After a list, a pod may have the name of another one that is gone, and was of another scheduler or on a node.
        before = self._assigned(key_of(obj))
        labels: list[str] = []
        if isinstance(obj, Pod) and self._profiles.has(obj.spec.scheduler_name):
            labels += self._apply_pending(obj)
        else:
            self._store.apply(obj)
            if self._forget_pending("/".join(key_of(obj))):
                labels.append(UNSCHEDULED_POD_DELETE)
        if before is not None:
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, before, None)
            labels.append(ASSIGNED_POD_DELETE.label)
        return labels

    def _apply_pending(self, pod: Pod) -> Sequence[str]:
        self._store.apply(pod)
        old = self._pending.put(pod)
        if old is None:
            self._queue.add(pod)
            return (UNSCHEDULED_POD_ADD,)
        if old.metadata.resource_version != pod.metadata.resource_version and not self._is_assumed(pod):
            self._queue.update(old, pod)
        return (UNSCHEDULED_POD_UPDATE.label,)

    def _apply_assigned(self, obj: AnyPod) -> Sequence[str]:
        key = key_of(obj)
        before = self._assigned(key)
        self._store.apply(obj)
        self._forget_pending("/".join(key))
        now = self._assigned(key)
        if now is None:
            if before is None:
                return ()
            # It has ended.
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, before, None)
            return (ASSIGNED_POD_DELETE.label,)
        if before is None:
            self._report_added(now)
            return (ASSIGNED_POD_ADD.label,)
        for event in pod_changes(before, now):
            self._report_updated(before, now, event)
        return (ASSIGNED_POD_UPDATE.label,)

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

    def _forget_pending(self, key: str) -> bool:
        """Take a pod out of the queue that is gone or on a node now; its place, if it waits in Permit, is free.

        Returns whether it was pending.
        """
        pod = self._pending.take(key)
        if pod is None:
            return False
        self._queue.delete(pod)
        waiting = self._profiles.of(pod).waiting_pods.get(pod_uid(pod))
        if waiting is not None:
            waiting.reject("", "removed")
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)
        return True

    def _assigned(self, key: Key) -> Pod | None:
        return assigned_pod(self._cluster, key)

    def _is_assumed(self, pod: Pod) -> bool:
        return self._cluster.placements.get(pod_uid(pod)) is not None


class _Nodes:
    def __init__(
        self,
        store: NodeStore,
        cluster: Cluster,
        queue: SchedulingQueue,
        order: NodeOrder | None,
        timing: EventTiming,
    ) -> None:
        self.timing = timing
        self._store = store
        self._cluster = cluster
        self._queue = queue
        self._order = order

    def keys(self) -> Iterable[Key]:
        return self._store.keys()

    @timed
    def apply(self, obj: Node) -> Sequence[str]:
        name = obj.metadata.name
        old = self._cluster.nodes.node(name)
        self._store.apply(obj)
        new = self._cluster.nodes.node(name)
        if new is None:
            return ()
        if self._order is not None:
            self._order.apply(new)
        try:
            events = [NODE_ADD] if old is None else node_changes(old, new)
        except QuantityError:
            return ()  # the store has logged it
        for event in events:
            self._queue.move_all_to_active_or_backoff(event, old, new, pre_check_for_node(self._cluster, name))
        return [event.label for event in events]

    @timed
    def remove(self, key: Key) -> Sequence[str]:
        # kube-scheduler's queue hears nothing of it: a node less helps no pod.
        self._store.remove(key)
        if self._order is not None:
            self._order.remove(key[1])
        return (NODE_DELETE.label,)


class _Storage:
    def __init__(
        self,
        store: StorageStore,
        cluster: Cluster,
        queue: SchedulingQueue,
        kind: type[StorageObject],
        timing: EventTiming,
    ) -> None:
        self.timing = timing
        self._store = store
        self._cluster = cluster
        self._queue = queue
        self._kind = kind
        self._resource, self._label = _STORAGE[kind]

    def keys(self) -> Iterable[Key]:
        return self._store.keys()

    @timed
    def apply(self, obj: StorageObject) -> Sequence[str]:
        old = self._cluster.storage.find(self._kind, key_of(obj))
        self._store.apply(obj)
        if old is not None:
            return self._move(ActionType.UPDATE, "Update", old, obj)
        if not isinstance(obj, StorageClass) or obj.volume_binding_mode == _WAIT_FOR_FIRST_CONSUMER:
            return self._move(ActionType.ADD, "Add", None, obj)
        return ()

    @timed
    def remove(self, key: Key) -> Sequence[str]:
        old = self._cluster.storage.find(self._kind, key)
        self._store.remove(key)
        if old is None or self._kind is StorageClass:
            return ()
        return self._move(ActionType.DELETE, "Delete", old, None)

    def _move(
        self, action: ActionType, verb: str, old: StorageObject | None, new: StorageObject | None
    ) -> Sequence[str]:
        event = ClusterEvent(self._resource, action, f"{self._label}{verb}")
        self._queue.move_all_to_active_or_backoff(event, old, new)
        return (event.label,)

"""What the watch shows, taken into the cluster and reported to the queue (eventhandlers.go).

Each handler is the store of one resource: it takes an object into the cluster first, so that what the queue activates
is decided on the new state.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from extender_service.cluster.sources.stores import NodeStore, PodStore, StorageStore
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
from extender_service.framework.events import NODE_ADD, NODE_DELETE, reported_events
from extender_service.framework.profiles import Profiles
from extender_service.framework.queueing_hints import QueueingHints
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.resources.api_resources import Resource
from extender_service.kube.types.core import Node, Pod, pod_name
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from extender_service.kube.types.watched_pods import AnyPod
from extender_service.kube.watching.store import Store
from extender_service.queue.pre_checks import pre_check_for_node
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.assigned_pods import assigned_pod, is_assigned, pod_on
from extender_service.scheduler.decided_nominations import nominated
from extender_service.scheduler.metrics.event_timing import UNTIMED, EventTiming, timed
from extender_service.scheduler.metrics.pod_resources import PodResourceMetrics
from extender_service.scheduler.node_order import NodeOrder
from extender_service.scheduler.nominated_pods import report_unnominated
from extender_service.scheduler.pod_lister import PodLister

# The resource of an event, and how its label begins in v1.31.1.
_STORAGE: Final[Mapping[type[StorageObject], tuple[str, str]]] = {
    PersistentVolume: (PERSISTENT_VOLUME, "Pv"),
    PersistentVolumeClaim: (PERSISTENT_VOLUME_CLAIM, "Pvc"),
    StorageClass: (STORAGE_CLASS, "StorageClass"),
    CSINode: (CSI_NODE, "CSINode"),
    CSIDriver: (CSI_DRIVER, "CSIDriver"),
    CSIStorageCapacity: (CSI_STORAGE_CAPACITY, "CSIStorageCapacity"),
    VolumeAttachment: (VOLUME_ATTACHMENT, "VolumeAttachment"),
}
# Stands for a pod in an event that no pod is compared with.
_UNSEEN: Final = Pod()


def storage_kinds(hints: Iterable[QueueingHints]) -> frozenset[type[StorageObject]]:
    """Return the kinds of storage whose changes some plugin has registered, whether or not any plugin reads them."""
    registered = {event.resource for by_event in hints for event in by_event}
    return frozenset(kind for kind, (resource, _) in _STORAGE.items() if resource in registered)


class EventHandlers:
    """Makes the handler of each resource, for the release that the cluster's rules are of.

    `order`, if given, follows the nodes, and `resources` the pods. `timing` receives how long each event took.
    """

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        profiles: Profiles,
        pending: PodLister,
        *,
        order: NodeOrder | None = None,
        resources: PodResourceMetrics | None = None,
        timing: EventTiming = UNTIMED,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._profiles = profiles
        self._pending = pending
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
    ) -> None:
        self.timing = timing
        self._rules = cluster.rules
        self._events = reported_events(cluster.rules)
        self._store = store
        self._cluster = cluster
        self._queue = queue
        self._profiles = profiles
        self._pending = pending
        self._resources = resources

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
            return (self._events.unscheduled_pod_delete,) if was_pending else ()
        return (self._report_deleted(before),)

    def _apply_unassigned(self, obj: AnyPod) -> Sequence[str]:
        # After a list, a pod may have the name of another one that is gone, and was of another scheduler or on a node.
        before = self._assigned(key_of(obj))
        labels: list[str] = []
        if isinstance(obj, Pod) and self._profiles.has(obj.spec.scheduler_name):
            labels += self._apply_pending(obj)
        else:
            self._store.apply(obj)
            if self._forget_pending("/".join(key_of(obj))):
                labels.append(self._events.unscheduled_pod_delete)
        if before is not None:
            labels.append(self._report_deleted(before))
        return labels

    def _apply_pending(self, pod: Pod) -> Sequence[str]:
        self._store.apply(pod)
        old = self._pending.put(pod)
        if old is None:
            self._queue.add(pod)
            return (self._events.unscheduled_pod_add,)
        is_new = old.metadata.resource_version != pod.metadata.resource_version
        if is_new:
            self._update_pending(old, pod)
        updated = self._events.unscheduled_pod_update.label
        if not self._rules.pod_changes_timed:
            return (updated,)
        if not is_new:
            return ()
        changes = (event.label for event in self._events.pod_changes(old, pod))
        return (*(label for label in changes if label != updated), updated)

    def _update_pending(self, old: Pod, new: Pod) -> None:
        if self._pending.has_ended(pod_name(new)):
            return  # kube-scheduler assumes such a pod until the watch shows its binding or its end
        if pod_uid(old) != pod_uid(new):
            old = self._as_nominated(old)
        if not self._is_assumed(new):
            self._queue.update(old, self._pending.nominations.as_decided(new))
            if old.status.nominated_node_name != new.status.nominated_node_name:
                report_unnominated(self._queue, self._rules, old)
            return
        is_going = bool(new.metadata.deletion_timestamp and not old.metadata.deletion_timestamp)
        if is_going and self._rules.deletion_frees_place:
            self._free_place(new)

    def _apply_assigned(self, obj: AnyPod) -> Sequence[str]:
        key = key_of(obj)
        before = self._assigned(key)
        self._store.apply(obj)
        was_pending = self._forget_pending("/".join(key), is_bound=True)
        if before is None:
            labels = self._report_added(key)
            return (*labels, self._events.unscheduled_pod_delete) if was_pending else labels
        now = self._assigned(key)
        if now is None:
            return (self._report_deleted(before),)  # it has ended
        changes = self._events.pod_changes(before, now)
        for event in changes:
            self._report_updated(before, now, event)
        # As in kube-scheduler, an update of no known kind is timed twice.
        timed_changes = [event.label for event in changes] if self._rules.pod_changes_timed else []
        return (*timed_changes, self._events.assigned_pod_update.label)

    def _report_added(self, key: Key) -> Sequence[str]:
        """Report a pod that the watch showed on no node before, unless it has ended; return the event's label."""
        if self._queue.looks_at_events:
            pod = self._assigned(key)
        else:  # which is nearly always so, and then only that it came counts
            pod = _UNSEEN if is_assigned(self._cluster, key) else None
        if pod is None:
            return ()
        # Without hints, kube-scheduler asks only pods with affinity or topology spread.
        if self._rules.queueing_hints:
            self._queue.move_all_to_active_or_backoff(self._events.assigned_pod_add, None, pod)
        else:
            self._queue.assigned_pod_added(pod)
        return (self._events.assigned_pod_add.label,)

    def _report_updated(self, old: Pod, new: Pod, event: ClusterEvent) -> None:
        if self._rules.queueing_hints:
            reported = event if self._rules.events_named_by_action else self._events.assigned_pod_update
            self._queue.move_all_to_active_or_backoff(reported, old, new)
        else:
            self._queue.assigned_pod_updated(old, new, event)

    def _report_deleted(self, pod: Pod) -> str:
        """Report that a pod is no longer on its node, and return the event's label."""
        self._queue.move_all_to_active_or_backoff(self._events.assigned_pod_delete, pod, None)
        return self._events.assigned_pod_delete.label

    def _forget_pending(self, key: str, *, is_bound: bool = False) -> bool:
        """Take a pod out of the queue that is gone or on a node now; if it is gone, its place is free.

        Returns whether it was pending.
        """
        pod = self._pending.take(key)
        if pod is None:
            return False
        if self._rules.nominated_pods_free_room:
            pod = self._as_nominated(pod)
        self._queue.delete(pod)
        if is_bound and self._rules.bound_nominees_free_no_room:
            return True
        if self._rules.deletion_frees_place:
            if not self._free_place(pod):
                report_unnominated(self._queue, self._rules, pod)
        elif self._end_wait(pod):
            self._report_deleted(pod)
        elif is_bound or not self._end_bound(pod):
            report_unnominated(self._queue, self._rules, pod)
        return True

    def _as_nominated(self, pod: Pod) -> Pod:
        """Return a pod that has gone with the node that it was nominated for, which the watch may not have shown."""
        node_name = self._queue.nominator.node_of.get(pod_uid(pod))
        return nominated(pod, node_name) if node_name and not pod.status.nominated_node_name else pod

    def _free_place(self, pod: Pod) -> bool:
        """Free the place of a pod that is deleted while it is being bound; returns whether it was
        (handleAssumedPodDeletion).

        A wait in Permit ends. PreBind and Bind go on, until the API server says that the pod is gone.
        """
        placement = self._cluster.placements.get(pod_uid(pod))
        if placement is None:
            return False
        if not self._end_wait(pod):
            self._cluster.end_placement(placement.uid)
        self._report_deleted(pod_on(pod, placement.node_name))
        return True

    def _end_bound(self, pod: Pod) -> bool:
        """Free the place of a pod that was bound, and is gone before the watch showed that; returns whether it was.

        A list leaves out a pod that has ended meanwhile (DeletedFinalStateUnknown).
        """
        placement = self._cluster.placements.get(pod_uid(pod))
        if placement is None or placement.reservation is None or not placement.reservation.post_bind_has_run:
            return False
        self._cluster.end_placement(placement.uid)
        self._report_deleted(pod_on(pod, placement.node_name))
        return True

    def _end_wait(self, pod: Pod) -> bool:
        """Free the place of a pod that waits in Permit, as its binding is undone; returns whether it waited."""
        waiting = self._profiles.of(pod).waiting_pods.get(pod_uid(pod))
        if waiting is None:
            return False
        # Before 1.35, one that is allowed already still counts as waiting, until its binding goes on.
        return waiting.reject("", "removed") or not self._rules.deletion_frees_place

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
        self._changes = reported_events(cluster.rules).node_changes
        self._is_checked = not cluster.rules.hints_replace_checks

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
            events = [NODE_ADD] if old is None else self._changes(old, new)
        except QuantityError:
            return ()  # the store has logged it
        for event in events:
            check = pre_check_for_node(self._cluster, name) if self._is_checked else None
            self._queue.move_all_to_active_or_backoff(event, old, new, check)
        return [event.label for event in events]

    @timed
    def remove(self, key: Key) -> Sequence[str]:
        # v1.31.1 reports nothing of it: a node less helps no pod. It may make the spread of pods more even, though.
        old = self._cluster.nodes.node(key[1])
        if old is not None and self._cluster.rules.node_deletions_reported:
            self._queue.move_all_to_active_or_backoff(NODE_DELETE, old, None)
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
        self._resource, self._called = _STORAGE[kind]
        self._events = reported_events(cluster.rules)
        # In v1.31.1, and later without hints, a new class wakes pods only if it binds late.
        self._may_any_new_class_help = cluster.rules.hints_replace_checks
        # v1.31.1 has no event for a class that is gone.
        self._reports_deletions = kind is not StorageClass or cluster.rules.events_named_by_action

    def keys(self) -> Iterable[Key]:
        return self._store.keys()

    @timed
    def apply(self, obj: StorageObject) -> Sequence[str]:
        old = self._cluster.storage.find(self._kind, key_of(obj))
        self._store.apply(obj)
        return self._report(ActionType.ADD if old is None else ActionType.UPDATE, old, obj)

    @timed
    def remove(self, key: Key) -> Sequence[str]:
        old = self._cluster.storage.find(self._kind, key)
        self._store.remove(key)
        if old is None or not self._reports_deletions:
            return ()
        return self._report(ActionType.DELETE, old, None)

    def _report(self, action: ActionType, old: StorageObject | None, new: StorageObject | None) -> Sequence[str]:
        """Report a change, and return its label; nothing happens if no plugin registered such changes."""
        event = self._events.object_change(self._resource, action, called=self._called)
        if not self._queue.is_registered(event):
            return ()
        if action is not ActionType.ADD or self._may_help(new):
            self._queue.move_all_to_active_or_backoff(event, old, new)
        return (event.label,)

    def _may_help(self, added: StorageObject | None) -> bool:
        if self._may_any_new_class_help or not isinstance(added, StorageClass):
            return True
        return added.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

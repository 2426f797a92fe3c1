"""What has happened to nodes, pods and namespaces, and by when replicas knew it."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from extender_service.kube.resources import api_resources
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduler.assigned_pods import pod_on
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.etcd import Change, Item
from tests.worlds.api_server.kinds import NAMESPACES, NODES, PODS, Kind
from tests.worlds.invariants.insides import SchedulerInsides
from tests.worlds.invariants.ledger import LedgerEntry, listen_to_ledgers
from tests.worlds.invariants.observed import Observed
from tests.worlds.waits.versions import RESTORED_SECONDS, Sightings, known_versions

Object = dict[str, Any]

_KINDS: Final = (NODES, PODS, NAMESPACES)


class Happened(NamedTuple):
    """Something that the watch of a kind shows at a revision, or, at revision 0, that is known at once."""

    kind: Kind
    revision: int
    at: float


class NodeChange(NamedTuple):
    """A node that has come, gone, or changed in more than what its kubelet reports again and again.

    `before` is None if it is new, `after` if it is gone; both are, where it may have changed with etcd.
    """

    happened: Happened
    before: Object | None
    after: Object | None


class NamespaceChange(NamedTuple):
    """A namespace that has got other labels."""

    happened: Happened
    name: str
    before: Mapping[str, str]
    after: Mapping[str, str]


class PodChange(NamedTuple):
    """A pod that has ended, come to a node, or got other labels. `before` is None if it is new, `after` if it ended."""

    happened: Happened
    before: Pod | None
    after: Pod | None

    def is_of(self, pod: Pod) -> bool:
        """Return whether it is a change of this pod."""
        return pod_uid(pod) in [pod_uid(each) for each in (self.before, self.after) if each is not None]


class History:
    """What has happened since the world began, or since etcd was restored. `look` is to be called each second.

    A change counts from when the watches of a scheduler have shown it, however late. That is known to a second.
    `restored_until` is when all schedulers have listed what a backup had, and know it.
    """

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._sightings: WeakKeyDictionary[SchedulerInsides, dict[Kind, Sightings]] = WeakKeyDictionary()
        self.node_changes: defaultdict[str, list[NodeChange]] = defaultdict(list)
        self.pods_left: defaultdict[str, list[Happened]] = defaultdict(list)
        self.namespace_changes: list[NamespaceChange] = []
        self.pod_changes: list[PodChange] = []
        # Pods on nodes that have been marked for deletion.
        self.pods_ending: list[tuple[Happened, Pod]] = []
        self.restored_until = -math.inf
        observed.model.etcd.listeners.append(self._note)
        observed.model.etcd.on_restore.append(self._note_restore)
        listen_to_ledgers(observed.world.network, self._note_reservation)

    def look(self, leading: Iterable[SchedulerInsides]) -> None:
        """Note what the replicas know by now."""
        for insides in leading:
            sightings = self._sightings.setdefault(insides, {kind: Sightings() for kind in _KINDS})
            for kind, version in known_versions(insides):
                if kind in sightings:
                    sightings[kind].note(version, self._observed.now)

    def seen_at(self, leader: SchedulerInsides, happened: Happened) -> float:
        """Return by when a replica knew what has happened; infinity if it does not know it yet."""
        if not happened.revision:
            return happened.at
        sightings = self._sightings.get(leader, {}).get(happened.kind)
        return math.inf if sightings is None else max(happened.at, sightings.seen_at(happened.revision))

    def _note(self, kind: Kind, change: Change) -> None:
        happened = Happened(kind, change.revision, self._observed.now)
        if kind is NODES and _is_reported(change):
            self.node_changes[change.item.key].append(NodeChange(happened, _value(change.before), _value(change.after)))
        if kind is NAMESPACES:
            self._note_namespace(happened, change)
        if kind is PODS:
            self._note_pod(happened, change)

    def _note_namespace(self, happened: Happened, change: Change) -> None:
        before, after = _labels(change.before), _labels(change.after)
        if before != after:
            self.namespace_changes.append(NamespaceChange(happened, change.item.key, before, after))

    def _note_pod(self, happened: Happened, change: Change) -> None:
        before, after = _unfinished(change.before), _unfinished(change.after)
        node_name = None if before is None else before.value["spec"].get("nodeName")
        if node_name and after is None:
            self.pods_left[node_name].append(happened)
        if node_name and after is not None and _is_ending(after) and not _is_ending(before):
            self.pods_ending.append((happened, decoded(after)))
        if _counted(before) != _counted(after):
            self.pod_changes.append(PodChange(happened, _decoded(before), _decoded(after)))

    def _note_reservation(self, entry: LedgerEntry) -> None:
        """Note that a scheduler gives up the place of a pod: it leaves its node before it was there."""
        if entry.point == "unreserve":
            happened = Happened(PODS, 0, self._observed.now)
            self.pods_left[entry.node_name].append(happened)
            self.pod_changes.append(PodChange(happened, pod_on(entry.pod, entry.node_name), None))

    def _note_restore(self) -> None:
        """Note that each node may have changed, and pods may have left it: what went back with etcd has no version."""
        self.restored_until = self._observed.now + RESTORED_SECONDS
        happened = Happened(PODS, 0, self.restored_until)
        self._sightings.clear()
        names = self.node_changes.keys() | {item.key for item in self._observed.model.etcd.all(NODES)}
        for name in sorted(names):
            self.node_changes[name] = [NodeChange(happened, None, None)]
            self.pods_left[name] = [happened]
        self.namespace_changes.clear()
        self.pod_changes.clear()
        self.pods_ending.clear()


def decoded(item: Item) -> Pod:
    """Return a pod as schedulers have it."""
    return api_resources.PODS.decoder.decode(item.body)


def _is_reported(change: Change) -> bool:
    """Return whether a change of a node is more than that its kubelet has reported the same again."""
    if change.before is None or change.after is None:
        return True
    return _reported_of(change.before.value) != _reported_of(change.after.value)


def _reported_of(node: Object) -> tuple[object, ...]:
    metadata, status = node["metadata"], node["status"]
    conditions = [(each["type"], each["status"]) for each in status.get("conditions", ())]
    return (metadata.get("labels"), metadata.get("annotations"), node["spec"], status.get("allocatable"), conditions)


def _value(item: Item | None) -> Object | None:
    return None if item is None else item.value


def _labels(item: Item | None) -> Mapping[str, str]:
    return {} if item is None else item.value["metadata"].get("labels") or {}


def _unfinished(item: Item | None) -> Item | None:
    return None if item is None or is_finished(item.value) else item


def _decoded(item: Item | None) -> Pod | None:
    return None if item is None else decoded(item)


def _is_ending(pod: Item | None) -> bool:
    return pod is not None and "deletionTimestamp" in pod.value["metadata"]


def _counted(pod: Item | None) -> tuple[object, ...]:
    """Return what affinity of other pods depends on: where a pod is, and its labels; nothing if there is no pod."""
    return () if pod is None else (pod.value["spec"].get("nodeName"), pod.value["metadata"].get("labels"))

"""Which pods kube-scheduler leaves waiting, too, though they fit."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from extender_service.config.rules import Rules
from extender_service.framework.events import NODE_DELETE, reported_events
from extender_service.kube import api_resources
from extender_service.kube.parsing.pod_affinity import AffinityTerm, pod_affinity_terms
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.worlds.actors.fitting import is_finished
from tests.worlds.api_server.etcd import Change, Item
from tests.worlds.api_server.kinds import NAMESPACES, NODES, PODS, Kind
from tests.worlds.invariants.insides import SchedulerInsides, scheduler_insides
from tests.worlds.invariants.ledger import LedgerEntry, listen_to_ledgers
from tests.worlds.invariants.observed import Observed
from tests.worlds.waits.versions import RESTORED_SECONDS, Sightings, known_versions

Object = dict[str, Any]

# The plugins that reject a pod from a node for pods on others, and for others that are empty.
_LOOK_AT_OTHER_PODS: Final = frozenset(("InterPodAffinity", "PodTopologySpread", "VolumeRestrictions"))
_LOOK_AT_EMPTY_NODES: Final = frozenset(("PodTopologySpread",))


class _Happened(NamedTuple):
    """Something that the watch of a kind shows at a revision, or, at revision 0, that is known at once."""

    kind: Kind
    revision: int
    at: float


class _PodChange(NamedTuple):
    """A pod that has ended, come to a node, or got other labels. `before` is None if it is new, `after` if it ended."""

    happened: _Happened
    before: Pod | None
    after: Pod | None

    def is_of(self, pod: Pod) -> bool:
        """Return whether it is a change of this pod."""
        return pod_uid(pod) in [pod_uid(each) for each in (self.before, self.after) if each is not None]


class Excuses:
    """What kube-scheduler leaves waiting, too. `look` is to be called each second.

    What has happened since the last attempt of a pod is what the watches of its scheduler have shown since, however
    late. What they show and when the pod came back is known to a second.

    - Without hints, it checks whether a node that has changed has room for a pod now, and only then asks the plugins
      that rejected the pod (preCheckForNode). So a pod that was rejected for a taint misses that the taint goes while
      the node is full; when a pod leaves that node, only pods are tried again that a plugin rejected which registered
      that. That is: the node has changed since the last attempt, in more than what its kubelet reports again and again;
      a pod has left it since then, so that it may have been full; and none of the plugins that rejected the pod
      registered the deletion of pods.
    - Before v1.33, it reports nothing when a nomination ends and no pod goes with it, though the room that it kept is
      free; and before v1.36, InterPodAffinity and PodTopologySpread take no notice. That is: a nomination for the node
      has ended since the last attempt, and before v1.33 any plugin, until v1.35 one of these, rejected the pod.

    One of these must explain each node on which the pod fits.

    With hints, InterPodAffinity takes no notice of the end of some pods: before v1.36, of one whose anti-affinity kept
    this pod out; before v1.37, of one that matched not all terms of this pod's; and of one that a term means by the
    labels of its namespace. That is: it rejected the pod, and since then such a pod has ended, or got other labels. Nor
    does it take notice of a pod that has come to a node, or got other labels, and that this pod's affinity means by the
    labels of its namespace.

    Before v1.36, a victim that waits in Permit is rejected in the name of DefaultPreemption alone. That is asked about
    no event, or only about the end of pods, and its hint is that this does not help. So the victim waits until the
    queue tries it again by itself.

    What the end of a node changed for others counts, too. Its pods do not count any more for affinity, topology spread,
    and claims with ReadWriteOncePod; and where it had the fewest pods, topology spread allows more elsewhere. Before
    v1.32, kube-scheduler does not report that a node is gone; later, it asks the plugins that registered that. Others
    wait until its pods are deleted, too. That is: a node has gone since the last attempt; one of these plugins rejected
    the pod, and none that is asked; and pods are still on that node, unless the plugin is PodTopologySpread, to which
    an empty one matters, too.
    """

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._sightings: WeakKeyDictionary[SchedulerInsides, dict[Kind, Sightings]] = WeakKeyDictionary()
        self._queued: WeakKeyDictionary[SchedulerInsides, dict[str, tuple[float, float]]] = WeakKeyDictionary()
        self._looked_at = 0.0
        self._node_changes: defaultdict[str, list[_Happened]] = defaultdict(list)
        self._pods_left: defaultdict[str, list[_Happened]] = defaultdict(list)
        self._pod_changes: list[_PodChange] = []
        self._nominated: Mapping[str, str] = {}
        self._nominations_ended_at: dict[str, float] = {}
        observed.model.etcd.listeners.append(self._note)
        observed.model.etcd.on_restore.append(self._note_restore)
        listen_to_ledgers(observed.world.network, self._note_reservation)

    def look(self) -> None:
        """Note what the replicas know by now, which pods have come back, and which nominations have ended."""
        nominated: dict[str, str] = {}
        for insides in self._leading():
            self._note_known(insides)
            self._note_queued(insides)
            nominated.update(insides.queue.nominator.node_of)
        for uid, node_name in self._nominated.items():
            if nominated.get(uid) != node_name:
                self._nominations_ended_at[node_name] = self._observed.now
        self._nominated = nominated
        self._looked_at = self._observed.now

    def _note_known(self, insides: SchedulerInsides) -> None:
        sightings = self._sightings.setdefault(insides, {NODES: Sightings(), PODS: Sightings()})
        for kind, version in known_versions(insides):
            if kind in sightings:
                sightings[kind].note(version, self._observed.now)

    def _note_queued(self, insides: SchedulerInsides) -> None:
        """Note the time of the look before for pods that have come back since then."""
        before, queued = self._queued.get(insides, {}), dict[str, tuple[float, float]]()
        for entry in insides.queue.entries():
            uid, queued_at = pod_uid(entry.info.pod), entry.info.queued_at
            known = before.get(uid)
            queued[uid] = known if known is not None and known[0] == queued_at else (queued_at, self._looked_at)
        self._queued[insides] = queued

    def cover(self, leader: SchedulerInsides, info: QueuedPodInfo, node_names: Sequence[str]) -> bool:
        """Return whether kube-scheduler would leave a pod waiting that fits on these nodes."""
        since = self._came_back_at(leader, info)
        if self._misses_pods(leader, info, since) or self._misses_gone_node(leader, info, since):
            return True
        rules, rejected_by = leader.cluster.rules, info.unschedulable_plugins
        if rejected_by == {"DefaultPreemption"} and not rules.victims_sent_back:
            return True
        freed = leader.queue._interested.of(reported_events(rules).assigned_pod_delete)
        misses_nodes = not rules.hints_replace_checks and not (freed and rejected_by & freed.plugins)
        counts_near = rules.nominated_pods_count_near or not rejected_by & _LOOK_AT_OTHER_PODS
        misses_nominations = not (rules.nominated_pods_free_room and counts_near)

        def is_missed(name: str) -> bool:
            has_unreported_room = misses_nominations and self._nominations_ended_at.get(name, -math.inf) > since
            return has_unreported_room or (misses_nodes and self._may_have_been_full(leader, name, since))

        return all(map(is_missed, node_names))

    def is_nominated(self, uid: str) -> bool:
        """Return whether a leader had a pod nominated at the last look."""
        return uid in self._nominated

    def _leading(self) -> Iterator[SchedulerInsides]:
        for replica in self._observed.replicas:
            insides = scheduler_insides(replica)
            if insides is not None and insides.is_leading:
                yield insides

    def _came_back_at(self, leader: SchedulerInsides, info: QueuedPodInfo) -> float:
        """Return when a pod came back from its last attempt, in the world's time, or up to a second earlier."""
        queued_at, at = self._queued.get(leader, {}).get(pod_uid(info.pod), (None, 0.0))
        return at if queued_at == info.queued_at else self._looked_at

    def _may_have_been_full(self, leader: SchedulerInsides, name: str, since: float) -> bool:
        """Return whether a node has changed since a time, and a pod has left it after that."""
        left_at = max((self._seen_at(leader, left) for left in self._pods_left.get(name, ())), default=-math.inf)
        changes = self._node_changes.get(name, ())
        return any(change.at <= left_at and self._seen_at(leader, change) > since for change in changes)

    def _misses_pods(self, leader: SchedulerInsides, info: QueuedPodInfo, since: float) -> bool:
        """Return whether InterPodAffinity rejected a pod, and has taken no notice of a pod that has changed since."""
        rules = leader.cluster.rules
        if not rules.queueing_hints or "InterPodAffinity" not in info.unschedulable_plugins:
            return False
        lately = (change for change in self._pod_changes if self._seen_at(leader, change.happened) > since)
        return any(self._is_missed(change, info.pod, rules) for change in lately if not change.is_of(info.pod))

    def _is_missed(self, change: _PodChange, pod: Pod, rules: Rules) -> bool:
        """Return whether a change of a pod may let another one in, without a notice to it."""
        _, before, after = change
        if after is not None and self._comes_unnoticed(before, after, pod):
            return True
        has_gone = after is None or (before is not None and before.metadata.labels != after.metadata.labels)
        return before is not None and has_gone and self._goes_unnoticed(before, after, pod, rules)

    def _comes_unnoticed(self, before: Pod | None, after: Pod, pod: Pod) -> bool:
        """Return whether a pod on a node matches the affinity of another one since it changed, without a notice."""
        near = pod_affinity_terms(pod.metadata.namespace, pod.spec.affinity).required

        def is_met(by: Pod | None) -> bool:
            return by is not None and bool(by.spec.node_name) and all(self._matches(term, by) for term in near)

        is_noticed = all(_matches_by_name(term, after) for term in near)
        return not is_noticed and is_met(after) and not is_met(before)

    def _goes_unnoticed(self, before: Pod, after: Pod | None, pod: Pod, rules: Rules) -> bool:
        """Return whether a pod may have kept another one out until it changed, without a notice to that."""
        apart, others = _apart(pod), () if after is not None else _apart(before)
        kept = [term for term in apart if self._matches(term, before)]
        is_noticed = any if rules.any_anti_affinity_term_wakes else all
        if kept and not is_noticed(_matches_by_name(term, before) for term in apart):
            return True
        was_kept = any(self._matches(term, pod) for term in others)
        is_reported = rules.anti_affinity_of_others_wakes and all(_matches_by_name(term, pod) for term in others)
        return was_kept and not is_reported

    def _matches(self, term: AffinityTerm, pod: Pod) -> bool:
        metadata = pod.metadata
        namespace = self._observed.model.etcd.get(NAMESPACES, metadata.namespace)
        labels = {} if namespace is None else namespace.value["metadata"].get("labels", {})
        return term.matches(metadata.namespace, metadata.labels, labels)

    def _misses_gone_node(self, leader: SchedulerInsides, info: QueuedPodInfo, since: float) -> bool:
        """Return whether a node has gone without its pods, and no plugin that rejected this pod is asked about it."""
        asked = leader.queue._interested.of(NODE_DELETE) if leader.cluster.rules.node_deletions_reported else None
        rejected_by = info.unschedulable_plugins
        if not rejected_by & _LOOK_AT_OTHER_PODS or (asked and rejected_by & asked.plugins):
            return False
        etcd = self._observed.model.etcd
        gone = {
            name
            for name, changes in self._node_changes.items()
            if self._seen_at(leader, changes[-1]) > since and etcd.get(NODES, name) is None
        }
        on_nodes = {item.value["spec"].get("nodeName") for item in etcd.all(PODS) if not is_finished(item.value)}
        return bool(gone if rejected_by & _LOOK_AT_EMPTY_NODES else gone & on_nodes)

    def _seen_at(self, leader: SchedulerInsides, happened: _Happened) -> float:
        """Return by when a replica knew what has happened; infinity if it does not know it yet."""
        if not happened.revision:
            return happened.at
        sightings = self._sightings.get(leader, {}).get(happened.kind)
        return math.inf if sightings is None else max(happened.at, sightings.seen_at(happened.revision))

    # What has happened:

    def _note(self, kind: Kind, change: Change) -> None:
        happened = _Happened(kind, change.revision, self._observed.now)
        if kind is NODES and _is_reported(change):
            self._node_changes[change.item.key].append(happened)
        if kind is PODS:
            self._note_pod(happened, change)

    def _note_pod(self, happened: _Happened, change: Change) -> None:
        before, after = _unfinished(change.before), _unfinished(change.after)
        node_name = None if before is None else before.value["spec"].get("nodeName")
        if node_name and after is None:
            self._pods_left[node_name].append(happened)
        if _counted(before) != _counted(after):
            self._pod_changes.append(_PodChange(happened, _decoded(before), _decoded(after)))

    def _note_reservation(self, entry: LedgerEntry) -> None:
        """Note that a scheduler gives up the place of a pod: it leaves its node before it was there."""
        if entry.point == "unreserve":
            happened = _Happened(PODS, 0, self._observed.now)
            self._pods_left[entry.node_name].append(happened)
            self._pod_changes.append(_PodChange(happened, entry.pod, None))

    def _note_restore(self) -> None:
        """Note that each node may have changed, and pods may have left it: what went back with etcd has no version."""
        happened = _Happened(PODS, 0, self._observed.now + RESTORED_SECONDS)
        etcd = self._observed.model.etcd
        self._sightings.clear()
        names = self._node_changes.keys() | {item.key for item in etcd.all(NODES)}
        for name in sorted(names):
            self._node_changes[name] = [happened]
            self._pods_left[name] = [happened]
        self._pod_changes.clear()


def _is_reported(change: Change) -> bool:
    """Return whether a change of a node is more than that its kubelet has reported the same again."""
    if change.before is None or change.after is None:
        return True
    return _reported_of(change.before.value) != _reported_of(change.after.value)


def _reported_of(node: Object) -> tuple[object, ...]:
    metadata, status = node["metadata"], node["status"]
    conditions = [(each["type"], each["status"]) for each in status.get("conditions", ())]
    return (metadata.get("labels"), metadata.get("annotations"), node["spec"], status.get("allocatable"), conditions)


def _unfinished(item: Item | None) -> Item | None:
    return None if item is None or is_finished(item.value) else item


def _decoded(item: Item | None) -> Pod | None:
    return None if item is None else api_resources.PODS.decoder.decode(item.body)


def _counted(pod: Item | None) -> tuple[object, ...]:
    """Return what affinity of other pods depends on: where a pod is, and its labels; nothing if there is no pod."""
    return () if pod is None else (pod.value["spec"].get("nodeName"), pod.value["metadata"].get("labels"))


def _apart(pod: Pod) -> Sequence[AffinityTerm]:
    return pod_affinity_terms(pod.metadata.namespace, pod.spec.affinity).required_anti


def _matches_by_name(term: AffinityTerm, pod: Pod) -> bool:
    """Return whether a term selects a pod where no labels of namespaces are known, as hints have it."""
    return term.matches(pod.metadata.namespace, pod.metadata.labels, {})

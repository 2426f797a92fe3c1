"""Which pods kube-scheduler leaves waiting, too, though they fit."""

from collections.abc import Iterator, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from extender_service.framework.cluster_event import ClusterEvent
from extender_service.framework.events import NODE_ALLOCATABLE_CHANGE, reported_events
from extender_service.framework.queueing_hints import EXTENDER
from extender_service.kube.types.pods import pod_uid
from extender_service.queue.queued_pod import QueuedPodInfo
from tests.worlds.invariants.insides import SchedulerInsides, scheduler_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.waits.history import History
from tests.worlds.waits.kept_room import KeptRoom
from tests.worlds.waits.missed_nodes import LOOK_AT_LABELS, MissedNodes
from tests.worlds.waits.missed_pods import MissedPods
from tests.worlds.waits.nominations import Nominations

# In place of the time at which a pod came back.
_IN_FLIGHT: Final = -1.0


class Excuses:
    """What kube-scheduler leaves waiting, too. `look` is to be called each second.

    What has happened since the last attempt of a pod is what the watches of its scheduler have shown since, however
    late. What they show and when the attempt was is known to a second.

    - MissedPods and MissedNodes say what pods miss of others, and of nodes. A node that may have been full counts if
      none of the plugins that rejected the pod registered the deletion of pods; one that may have been too small, if
      none registered that nodes change what they can allocate.
    - Nominations says when the end of a nomination is not reported, though it frees room; KeptRoom, when `serve` cannot
      know that it has ended.
    - Before v1.36, a victim that waits in Permit is rejected in the name of DefaultPreemption alone. That is asked
      about no event, or only about the end of pods, and its hint is that this does not help. So the victim waits until
      the queue tries it again by itself.
    - Before v1.35, kube-scheduler counts a pod that was deleted in the midst of PreBind or Bind until that ends, and
      tells others only then that its room is free.
    - An extender rejected the pod, and was asked about some nodes only: a scheduler with percentageOfNodesToScore asks
      about the first that it finds.
    - A restore of etcd takes back changes of pods, namespaces and nodes that kube-scheduler takes no notice of, and no
      one says which. That is: InterPodAffinity or PodTopologySpread rejected the pod before all was listed again.

    What is about a node, that it may have been full or too small, or a nomination for it, or a binding to it, must
    explain each one on which the pod fits.
    """

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        history = self._history = History(observed)
        self._pods, self._nodes = MissedPods(observed, history), MissedNodes(observed, history)
        self._nominations, self._kept = Nominations(observed), KeptRoom(observed)
        self._queued: WeakKeyDictionary[SchedulerInsides, dict[str, tuple[float, float]]] = WeakKeyDictionary()
        self._looked_at = 0.0

    def look(self) -> None:
        """Note what the replicas know by now, which pods have come back, and which nominations have ended."""
        leading = [*self._leading()]
        self._history.look(leading)
        self._nominations.look(leading)
        for insides in leading:
            self._note_queued(insides)
        self._looked_at = self._observed.now

    def _note_queued(self, insides: SchedulerInsides) -> None:
        """Note since when pods miss what happens: from the look before they came back, or with hints, which look at
        what happened while they were in flight, from the look before they left.
        """
        before, queued = self._queued.get(insides, {}), dict[str, tuple[float, float]]()
        for uid in insides.queue._in_flight._positions if insides.cluster.rules.queueing_hints else ():
            known = before.get(uid)
            queued[uid] = known if known is not None and known[0] == _IN_FLIGHT else (_IN_FLIGHT, self._looked_at)
        for entry in insides.queue.entries():
            uid, queued_at = pod_uid(entry.info.pod), entry.info.queued_at
            known = before.get(uid)
            since = known[1] if known is not None and known[0] in (queued_at, _IN_FLIGHT) else self._looked_at
            queued[uid] = (queued_at, since)
        self._queued[insides] = queued

    def cover(self, leader: SchedulerInsides, info: QueuedPodInfo, node_names: Sequence[str]) -> bool:
        """Return whether kube-scheduler would leave a pod waiting that fits on these nodes."""
        since = self._misses_from(leader, info)
        nodes = self._nodes
        if self._pods.have_changed(leader, info, since) or nodes.has_gone(leader, info, since):
            return True
        if nodes.let_in_elsewhere(leader, info, node_names, since):
            return True
        rules, rejected_by = leader.cluster.rules, info.unschedulable_plugins
        if rejected_by & LOOK_AT_LABELS and since < self._history.restored_until:
            return True
        if rejected_by == {"DefaultPreemption"} and not rules.victims_sent_back:
            return True
        if EXTENDER in rejected_by and _asks_about_some(leader, info):
            return True
        checks_room = not rules.hints_replace_checks
        misses_ends = checks_room and not _is_asked_about(leader, info, reported_events(rules).assigned_pod_delete)
        misses_growth = checks_room and not _is_asked_about(leader, info, NODE_ALLOCATABLE_CHANGE)

        def is_missed(name: str) -> bool:
            if self._nominations.have_ended_unreported(leader, info, name, since):
                return True
            if self._kept.is_kept(leader, info, name) or _is_being_left(leader, name):
                return True
            if misses_ends and nodes.may_have_been_full(leader, name, since):
                return True
            return misses_growth and nodes.may_have_been_small(leader, name, since)

        return all(map(is_missed, node_names))

    def is_nominated(self, uid: str) -> bool:
        """Return whether a leader had a pod nominated at the last look."""
        return self._nominations.are_for(uid)

    def _leading(self) -> Iterator[SchedulerInsides]:
        for replica in self._observed.replicas:
            insides = scheduler_insides(replica)
            if insides is not None and insides.is_leading:
                yield insides

    def _misses_from(self, leader: SchedulerInsides, info: QueuedPodInfo) -> float:
        """Return since when a pod may have missed something, in the world's time, or up to a second earlier."""
        queued_at, at = self._queued.get(leader, {}).get(pod_uid(info.pod), (None, 0.0))
        return at if queued_at == info.queued_at else self._looked_at


def _is_being_left(leader: SchedulerInsides, node_name: str) -> bool:
    """Return whether kube-scheduler still counts a pod on a node that was deleted while it is being bound to that."""
    cluster = leader.cluster
    if cluster.rules.deletion_frees_place:
        return False
    return any(
        under_way.node_name == node_name and cluster.pod(uid) is None and cluster.placements.get(uid) is None
        for uid, under_way in leader.engine.binder._under_way.items()
    )


def _is_asked_about(leader: SchedulerInsides, info: QueuedPodInfo, event: ClusterEvent) -> bool:
    """Return whether a plugin that rejected a pod has registered an event."""
    interest = leader.queue._interested.of(event)
    return interest is not None and not info.unschedulable_plugins.isdisjoint(interest.plugins)


def _asks_about_some(leader: SchedulerInsides, info: QueuedPodInfo) -> bool:
    sampling = leader.scheduler._attempts._sampling
    profile = leader.engine.profiles.find(info.pod.spec.scheduler_name)
    if sampling is None or profile is None:
        return False
    nodes = len(sampling.order.rows)
    return sampling.nodes_to_find(profile, nodes) < nodes

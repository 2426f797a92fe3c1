"""Nominations of pods for nodes, and whether kube-scheduler reports that they end."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from extender_service.queue.queued_pod import QueuedPodInfo
from tests.worlds.api_server.etcd import Change, Item
from tests.worlds.api_server.kinds import PODS, Kind
from tests.worlds.invariants.insides import SchedulerInsides
from tests.worlds.invariants.observed import Observed
from tests.worlds.waits.missed_nodes import LOOK_AT_OTHER_PODS


class _Ended(NamedTuple):
    """A nomination that was there at the look before. `at` is the time of the look at which it was not."""

    uid: str
    at: float


class Nominations:
    """The nominations of the schedulers that lead. `look` is to be called each second.

    Before v1.33, kube-scheduler reports nothing when a nomination ends and no pod goes with it, though the room that it
    kept is free. From then on, it reports that the API server's nomination of a pod ends, but to InterPodAffinity and
    PodTopologySpread only from v1.36 on. So it reports nothing

    - where the API server never had the nomination, as the write was refused;
    - from v1.35 on, when the pod is bound, also to another node;
    - while the API server still has it, or the pod is being bound to another node.
    """

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._etcd = observed.model.etcd
        self._node_of: Mapping[str, str] = {}
        self._ended: defaultdict[str, list[_Ended]] = defaultdict(list)
        # The UIDs and nodes of all nominations that the API server ever had.
        self._stored: set[tuple[str, str]] = set()
        self._etcd.listeners.append(self._note)
        self._etcd.on_restore.append(self._note_all)

    def look(self, leading: Iterable[SchedulerInsides]) -> None:
        """Note which nominations have ended."""
        node_of: dict[str, str] = {}
        for insides in leading:
            node_of.update(insides.queue.nominator.node_of)
        for uid, node_name in self._node_of.items():
            if node_of.get(uid) != node_name:
                self._ended[node_name].append(_Ended(uid, self._observed.now))
        self._node_of = node_of

    def are_for(self, uid: str) -> bool:
        """Return whether a leader had a pod nominated at the last look."""
        return uid in self._node_of

    def have_ended_unreported(
        self, leader: SchedulerInsides, info: QueuedPodInfo, node_name: str, since: float
    ) -> bool:
        """Return whether a nomination for a node has ended since a time, and that was not reported to a pod."""
        rules = leader.cluster.rules
        counts_near = rules.nominated_pods_count_near or not info.unschedulable_plugins & LOOK_AT_OTHER_PODS
        lately = [ended.uid for ended in self._ended.get(node_name, ()) if ended.at > since]
        if not (rules.nominated_pods_free_room and counts_near):
            return bool(lately)
        return any(self._is_unreported(leader, uid, node_name) for uid in lately)

    def _is_unreported(self, leader: SchedulerInsides, uid: str, node_name: str) -> bool:
        pod = next((item.value for item in self._etcd.all(PODS) if item.value["metadata"]["uid"] == uid), None)
        bound_to = "" if pod is None else pod["spec"].get("nodeName", "")
        placement = leader.cluster.placements.get(uid)
        place = bound_to or ("" if placement is None else placement.node_name)
        if place == node_name:
            return False  # it takes the room itself
        if (uid, node_name) not in self._stored:
            return True
        if bound_to:
            return leader.cluster.rules.bound_nominees_free_no_room
        return bool(place) or (pod is not None and pod["status"].get("nominatedNodeName") == node_name)

    def _note(self, kind: Kind, change: Change) -> None:
        if kind is PODS and change.after is not None:
            self._note_stored(change.after)

    def _note_all(self) -> None:
        for item in self._etcd.all(PODS):
            self._note_stored(item)

    def _note_stored(self, pod: Item) -> None:
        node_name = pod.value["status"].get("nominatedNodeName")
        if node_name:
            self._stored.add((pod.value["metadata"]["uid"], node_name))

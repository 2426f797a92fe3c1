"""The queue's nominated pods as columns: thousands may wait for room, and each attempt asks which of them count.

The queue knows them before the watch does. Only what has changed since the last attempt is looked up.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.nominations import NominatedPods
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.queue.nominator import Nominator
from extender_service.queue.scheduling_queue import SchedulingQueue

_FIRST_CAPACITY = 64
# Serials that no slot has: of a pod that the watch does not show as pending, and of an entry that is no more.
_NOT_PENDING, _REMOVED = -1, -2
_NO_ONE = NominatedPods(np.zeros(0, np.intp), np.zeros(0, np.intp))


def nominations(cluster: Cluster, queue: SchedulingQueue) -> Callable[[Pod], NominatedPods]:
    """Return the function that the engine asks for nominated pods: others of the pod's priority or more."""
    return _Columns(cluster, queue.nominator).counting_for


class _Columns:
    """An entry for each nominated pod, in the order in which they were nominated; an entry that is removed stays until
    there are as many of them as others. `_serials` are those of the slots as they were found."""

    def __init__(self, cluster: Cluster, nominator: Nominator) -> None:
        self._cluster = cluster
        self._nominator = nominator
        self._begin()

    def counting_for(self, pod: Pod) -> NominatedPods:
        """Return the pods that count when a pod is judged: not itself, and none that counts on a node already."""
        self._follow()
        if not self._place_of:
            return _NO_ONE
        uid, used = pod_uid(pod), len(self._uids)
        slots, rows = self._slots[:used], self._rows[:used]
        counts = (self._serials[:used] > 0) & (rows >= 0) & (self._cluster.pods.priority[slots] >= pod.spec.priority)
        counts[[self._place_of[known] for known in self._cluster.placements.among(self._place_of.keys())]] = False
        if uid in self._place_of:
            counts[self._place_of[uid]] = False
        places = counts.nonzero()[0]
        return NominatedPods(slots[places], rows[places])

    def _begin(self) -> None:
        self._seen = self._nominator.changes.count
        self._membership = -1
        self._uids: list[str] = []
        self._node_names: list[str] = []
        self._place_of: dict[str, int] = {}
        self._slots: NDArray[np.intp] = np.zeros(_FIRST_CAPACITY, np.intp)
        self._rows: NDArray[np.intp] = np.zeros(_FIRST_CAPACITY, np.intp)
        self._serials: NDArray[np.int64] = np.zeros(_FIRST_CAPACITY, np.int64)
        for uid, node_name in self._nominator.on_nodes():
            self._add(uid, node_name)

    def _follow(self) -> None:
        """Take in what has changed: nominations, nodes, and the slots of pods."""
        nominator = self._nominator
        if self._seen != nominator.changes.count:
            changed = nominator.changes.since(self._seen)
            self._seen = nominator.changes.count
            if changed is None or len(self._uids) > 2 * len(self._place_of) + _FIRST_CAPACITY:
                self._begin()
            else:
                for uid in changed:
                    self._renominate(uid, nominator.node_of.get(uid, ""))
        used, nodes = len(self._uids), self._cluster.nodes
        if not used:
            return
        if self._membership != nodes.membership:
            self._membership = nodes.membership
            self._rows[:used] = nodes.rows_named(self._node_names)
        serials = self._serials[:used]
        moved = (self._cluster.pods.serial[self._slots[:used]] != serials) & (serials != _REMOVED)
        for place in moved.nonzero()[0].tolist():
            self._find(place)

    def _renominate(self, uid: str, node_name: str) -> None:
        place = self._place_of.pop(uid, None)
        if place is not None:
            self._serials[place] = _REMOVED
        if node_name:
            self._add(uid, node_name)

    def _add(self, uid: str, node_name: str) -> None:
        place = len(self._uids)
        if place == len(self._slots):
            more = (0, place)
            self._slots, self._rows = np.pad(self._slots, more), np.pad(self._rows, more)
            self._serials = np.pad(self._serials, more)
        self._place_of[uid] = place
        self._uids.append(uid)
        self._node_names.append(node_name)
        nodes = self._cluster.nodes
        self._rows[place] = nodes.row_of[node_name] if nodes.is_node(node_name) else -1
        self._find(place)

    def _find(self, place: int) -> None:
        """Find the slot of a pod. One that the watch does not show as pending is looked for again each time."""
        slot = self._cluster.pending_slot(self._uids[place])
        self._slots[place] = 0 if slot is None else slot
        self._serials[place] = _NOT_PENDING if slot is None else self._cluster.pods.serial[slot]

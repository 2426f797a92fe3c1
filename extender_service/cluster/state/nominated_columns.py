"""Nominated pods as columns: thousands may wait for room, and each decision asks which of them count.

Only what has changed since the last question is looked up.
"""

from collections.abc import Container, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.pods.pod_table import PodTable
from extender_service.cluster.state.placements import Placements
from extender_service.cluster.structures.change_log import ChangeLog
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid

_FIRST_CAPACITY = 64
# Serials that no slot has: of a pod that is in no slot now, and of an entry that is no more.
_NO_SLOT, _REMOVED = -1, -2


class NominatedPods:
    """Nominated pods, at least one: the slot of each in the pod table, its serial there, and the row of its node.

    The row is -1 where the cluster does not have the node, which a caller may send whole; `names` are these nodes.
    """

    __slots__ = ("names", "rows", "serials", "slots")

    def __init__(
        self, slots: NDArray[np.intp], serials: NDArray[np.int64], rows: NDArray[np.intp], names: list[str]
    ) -> None:
        self.slots = slots
        self.serials = serials
        self.rows = rows
        self.names = names

    def __eq__(self, other: object) -> bool:
        """Return whether these are the same pods, with the same requests, on the same nodes. No row may have become
        that of another node since."""
        return (
            isinstance(other, NominatedPods)
            and np.array_equal(self.serials, other.serials)
            and np.array_equal(self.rows, other.rows)
            and self.names == other.names
        )

    __hash__ = None  # type: ignore[assignment]  # compared by value, and arrays may be changed


# Nominated pods that count when a pod is judged.
Nominated = NominatedPods | tuple[()]


class NominationSource(Protocol):
    """What knows which pods are nominated, by UID."""

    @property
    def changes(self) -> ChangeLog[str]:
        """The UIDs of pods that were nominated for a node, or are not any more, or are in another slot."""

    def uids(self) -> Iterable[str]:
        """Return the UIDs of the pods that are nominated for a node."""

    def node_of(self, uid: str) -> str:
        """Return the node that a pod is nominated for, empty if for none."""

    def slot_of(self, uid: str) -> int | None:
        """Return the slot in the pod table of a nominated pod, None if it is in none now."""

    def scheduler_of(self, uid: str) -> str:
        """Return the name of the scheduler of a nominated pod."""


class NominatedColumns:
    """An entry for each nominated pod, in the order in which they were nominated; an entry that is removed stays until
    there are as many of them as others. `_serials` are those of the slots as they were found."""

    def __init__(self, pods: PodTable, nodes: NodeTable, placements: Placements, source: NominationSource) -> None:
        self._pods = pods
        self._nodes = nodes
        self._placements = placements
        self._source = source
        self._begin()

    def counting_for(self, pod: Pod, scheduler_names: Container[str] | None = None) -> Nominated:
        """Return the pods that count when a pod is judged: others of its priority or more, of these schedulers (None:
        of all), that do not count on a node already."""
        self._follow()
        if not self._place_of:
            return ()
        uid, used = pod_uid(pod), len(self._uids)
        slots, serials, rows = self._slots[:used], self._serials[:used], self._rows[:used]
        counts = (serials > 0) & (self._pods.priority[slots] >= pod.spec.priority)
        counts[[self._place_of[known] for known in self._placements.among(self._place_of.keys())]] = False
        if uid in self._place_of:
            counts[self._place_of[uid]] = False
        if scheduler_names is not None:
            counts &= np.array([name in scheduler_names for name in self._number_of])[self._schedulers[:used]]
        places = counts.nonzero()[0]
        if not len(places):
            return ()
        rows = rows[places]
        names = [self._node_names[place] for place in places[rows < 0].tolist()]
        return NominatedPods(slots[places], serials[places], rows, names)

    def _begin(self) -> None:
        self._seen = self._source.changes.count
        self._membership = -1
        self._uids: list[str] = []
        self._node_names: list[str] = []
        self._place_of: dict[str, int] = {}
        # Numbers of the schedulers by name, and of each entry's.
        self._number_of: dict[str, int] = {}
        self._schedulers: NDArray[np.intp] = np.zeros(_FIRST_CAPACITY, np.intp)
        self._slots: NDArray[np.intp] = np.zeros(_FIRST_CAPACITY, np.intp)
        self._rows: NDArray[np.intp] = np.zeros(_FIRST_CAPACITY, np.intp)
        self._serials: NDArray[np.int64] = np.zeros(_FIRST_CAPACITY, np.int64)
        for uid in self._source.uids():
            self._add(uid, self._source.node_of(uid))

    def _follow(self) -> None:
        """Take in what has changed: nominations, nodes, and the slots of pods."""
        log = self._source.changes
        if self._seen != log.count:
            changed = log.since(self._seen)
            self._seen = log.count
            if changed is None or len(self._uids) > 2 * len(self._place_of) + _FIRST_CAPACITY:
                self._begin()
            else:
                for uid in changed:
                    self._renominate(uid, self._source.node_of(uid))
        used, nodes = len(self._uids), self._nodes
        if not used:
            return
        if self._membership != nodes.membership:
            self._membership = nodes.membership
            self._rows[:used] = nodes.rows_named(self._node_names)
        serials = self._serials[:used]
        moved = (self._pods.serial[self._slots[:used]] != serials) & (serials != _REMOVED)
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
            self._serials, self._schedulers = np.pad(self._serials, more), np.pad(self._schedulers, more)
        self._place_of[uid] = place
        self._uids.append(uid)
        self._node_names.append(node_name)
        numbers = self._number_of
        self._schedulers[place] = numbers.setdefault(self._source.scheduler_of(uid), len(numbers))
        self._rows[place] = self._nodes.row_of[node_name] if self._nodes.is_node(node_name) else -1
        self._find(place)

    def _find(self, place: int) -> None:
        """Find the slot of a pod. One that is in none is looked for again each time."""
        slot = self._source.slot_of(self._uids[place])
        self._slots[place] = 0 if slot is None else slot
        self._serials[place] = _NO_SLOT if slot is None else self._pods.serial[slot]

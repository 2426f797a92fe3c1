"""Pods that preemption has made room for, and that are still on their way (internal/queue, nominator)."""

from collections.abc import Container, Iterable

import msgspec

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.pods.pod_table import PodTable
from extender_service.cluster.state.changes import Change, Changes
from extender_service.cluster.state.nominated_columns import Nominated, NominatedColumns
from extender_service.cluster.state.placements import Placements
from extender_service.cluster.structures.change_log import ChangeLog
from extender_service.kube.types.core import Pod
from extender_service.kube.types.watched_pods import AnyPod


class Nomination(msgspec.Struct, frozen=True):
    """A pending pod that is to run on a node, and its slot in the pod table."""

    uid: str
    slot: int
    node_name: str
    priority: int
    scheduler_name: str


class Nominations:
    """The nominated pods by UID. Gated pods count in later releases only (gated_nominees).

    A nomination that was decided `ahead` counts until it is withdrawn, unless the watch shows another one of the pod.
    `change_count` grows with each change. What waits for the end of one hears of it by `events`.
    """

    def __init__(
        self, pods: PodTable, nodes: NodeTable, placements: Placements, events: Changes, *, gated_count: bool = False
    ) -> None:
        self._tables = pods, nodes, placements
        self._events = events
        self.change_count = 0
        self._gated_count = gated_count
        self._by_uid: dict[str, Nomination] = {}
        self._by_node: dict[str, dict[str, Nomination]] = {}
        # The nominated node by UID.
        self._ahead: dict[str, str] = {}
        self.changes: ChangeLog[str] = ChangeLog()
        """The UIDs of pods whose nomination began, changed or ended; a new log once no pod is nominated."""
        # None until they are asked for, and once no pod is nominated.
        self._columns: NominatedColumns | None = None

    def __len__(self) -> int:
        return len(self._by_uid)

    def apply(self, pod: AnyPod, uid: str, slot: int) -> None:
        """Take in what the watch says of a pod. A pod in another slot is a changed one."""
        spec = pod.spec
        if spec.node_name:
            if uid in self._by_uid:
                self._end_bound(uid, spec.node_name)
            return
        node_name = pod.status.nominated_node_name or self._ahead.get(uid, "")
        if not node_name or (spec.scheduling_gates and not self._gated_count):
            self.remove(uid)
        else:
            self._set(Nomination(uid, slot, node_name, spec.priority, spec.scheduler_name))

    def remove(self, uid: str) -> None:
        """Forget a pod that the watch does not show any more, or shows in another slot next."""
        known = self._drop(uid)
        if known is not None:
            self._events.notify(Change.NOMINATION_ENDED, ("", known.node_name))

    def _end_bound(self, uid: str, bound_to: str) -> None:
        """End the nomination of a pod that was bound: on the node that was kept for it, it takes that room."""
        known = self._drop(uid)
        if known is not None and known.node_name != bound_to:
            self._events.notify(Change.NOMINATION_ENDED, ("", known.node_name))

    def _drop(self, uid: str) -> Nomination | None:
        known = self._by_uid.pop(uid, None)
        if known is None:
            return None
        on_node = self._by_node[known.node_name]
        del on_node[uid]
        if not on_node:
            del self._by_node[known.node_name]
        self._note(uid)
        if not self._by_uid:
            self.changes, self._columns = ChangeLog(), None
        return known

    def nominate_ahead(self, pod: Pod, uid: str, slot: int, node_name: str) -> None:
        """Nominate a pending pod before the watch shows that it is nominated."""
        self._ahead[uid] = node_name
        self._set(Nomination(uid, slot, node_name, pod.spec.priority, pod.spec.scheduler_name))

    def withdraw(self, uid: str, shown: str) -> None:
        """End what was decided ahead about a pod: again, what the watch has `shown` counts, a node or none."""
        if self._ahead.pop(uid, None) is None:
            return
        known = self._by_uid.get(uid)
        if not shown:
            self.remove(uid)
        elif known is not None:
            self._set(msgspec.structs.replace(known, node_name=shown))

    def counting_for(self, pod: Pod, scheduler_names: Container[str]) -> Nominated:
        """Return the pods that count when a pod is judged: others of its priority or more, of these schedulers, that do
        not count on a node already."""
        if not self._by_uid:
            return ()
        if self._columns is None:
            self._columns = NominatedColumns(*self._tables, self)
        return self._columns.counting_for(pod, scheduler_names)

    def on_node(self, node_name: str) -> list[Nomination]:
        """Return the pods that are nominated for a node."""
        return list(self._by_node.get(node_name, {}).values())

    def uids(self) -> Iterable[str]:
        """Return the UIDs of the nominated pods."""
        return self._by_uid.keys()

    def node_of(self, uid: str) -> str:
        """Return the node that a pod is nominated for, empty if for none."""
        known = self._by_uid.get(uid)
        return "" if known is None else known.node_name

    def slot_of(self, uid: str) -> int:
        """Return the slot of a nominated pod."""
        return self._by_uid[uid].slot

    def scheduler_of(self, uid: str) -> str:
        """Return the scheduler name of a nominated pod."""
        return self._by_uid[uid].scheduler_name

    def _set(self, nomination: Nomination) -> None:
        uid = nomination.uid
        if self._by_uid.get(uid) == nomination:
            return
        known = self._drop(uid)
        self._by_uid[uid] = nomination
        self._by_node.setdefault(nomination.node_name, {})[uid] = nomination
        self._note(uid)
        if known is not None and known.node_name != nomination.node_name:
            self._events.notify(Change.NOMINATION_ENDED, ("", known.node_name))

    def _note(self, uid: str) -> None:
        self.changes.append(uid)
        self.change_count += 1

"""Pods that preemption has made room for, and that are still on their way (internal/queue, nominator)."""

import itertools
from collections.abc import Container, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.kube.types.core import Pod
from extender_service.kube.types.watched_pods import AnyPod


class Nomination(msgspec.Struct, frozen=True):
    """A pending pod that is to run on a node, and its slot in the pod table.

    `version` is another one whenever the pod requests or selects something else: its slot may be one that it had
    before.
    """

    uid: str
    slot: int
    node_name: str
    priority: int
    scheduler_name: str
    version: int


class NominatedPods:
    """Nominated pods as columns: the slot of each in the pod table, and the row of its node."""

    __slots__ = ("rows", "slots")

    def __init__(self, slots: NDArray[np.intp], rows: NDArray[np.intp]) -> None:
        self.slots = slots
        self.rows = rows

    def __len__(self) -> int:
        return len(self.slots)


# Nominated pods that count when a pod is judged.
Nominated = Sequence[Nomination] | NominatedPods


class Nominations:
    """The nominated pods by UID. Gated pods count in later releases only (gated_nominees).

    A nomination that was decided `ahead` counts until it is withdrawn, unless the watch shows another one of the pod.
    """

    def __init__(self, *, gated_count: bool = False) -> None:
        self._gated_count = gated_count
        self._by_uid: dict[str, Nomination] = {}
        # The nominated node by UID.
        self._ahead: dict[str, str] = {}
        self._versions = itertools.count()

    def __len__(self) -> int:
        return len(self._by_uid)

    def apply(self, pod: AnyPod, uid: str, slot: int) -> None:
        """Take in what the watch says of a pod. A pod in another slot, or that was removed before, is a changed one."""
        node_name, spec = pod.status.nominated_node_name or self._ahead.get(uid, ""), pod.spec
        if not node_name or spec.node_name or (spec.scheduling_gates and not self._gated_count):
            self._by_uid.pop(uid, None)
            return
        known = self._by_uid.get(uid)
        version = known.version if known is not None and known.slot == slot else next(self._versions)
        self._by_uid[uid] = Nomination(uid, slot, node_name, spec.priority, spec.scheduler_name, version)

    def remove(self, uid: str) -> None:
        """Forget a pod that the watch does not show any more, or shows in another slot next."""
        self._by_uid.pop(uid, None)

    def nominate_ahead(self, pod: Pod, uid: str, slot: int, node_name: str) -> None:
        """Nominate a pending pod before the watch shows that it is nominated."""
        self._ahead[uid] = node_name
        spec = pod.spec
        self._by_uid[uid] = Nomination(uid, slot, node_name, spec.priority, spec.scheduler_name, next(self._versions))

    def withdraw(self, uid: str, shown: str) -> None:
        """End what was decided ahead about a pod: again, what the watch has `shown` counts, a node or none."""
        if self._ahead.pop(uid, None) is None:
            return
        known = self._by_uid.get(uid)
        if not shown:
            self._by_uid.pop(uid, None)
        elif known is not None:
            self._by_uid[uid] = msgspec.structs.replace(known, node_name=shown)

    def on_node(self, node_name: str) -> list[Nomination]:
        """Return the pods that are nominated for a node."""
        return [nomination for nomination in self._by_uid.values() if nomination.node_name == node_name]

    def weighing_on(self, uid: str, priority: int, scheduler_names: Container[str]) -> list[Nomination]:
        """Return those that count when a pod is judged: others of its priority or more, of these schedulers."""
        return [
            nomination
            for nomination in self._by_uid.values()
            if nomination.priority >= priority
            and nomination.uid != uid
            and nomination.scheduler_name in scheduler_names
        ]

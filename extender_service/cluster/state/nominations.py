"""Pods that preemption has made room for, and that are still on their way (internal/queue, nominator)."""

from collections.abc import Container

import msgspec

from extender_service.kube.types.watched_pods import AnyPod


class Nomination(msgspec.Struct, frozen=True):
    """A pending pod that is to run on a node, and its slot in the pod table."""

    uid: str
    slot: int
    node_name: str
    priority: int
    scheduler_name: str


class Nominations:
    """The nominated pods by UID. Gated pods are not in any scheduler's queue, and do not count."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Nomination] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def apply(self, pod: AnyPod, uid: str, slot: int) -> None:
        """Take in what the watch says of a pod."""
        node_name = pod.status.nominated_node_name
        if node_name and not pod.spec.node_name and not pod.spec.scheduling_gates:
            self._by_uid[uid] = Nomination(uid, slot, node_name, pod.spec.priority, pod.spec.scheduler_name)
        else:
            self._by_uid.pop(uid, None)

    def remove(self, uid: str) -> None:
        """Forget a pod."""
        self._by_uid.pop(uid, None)

    def weighing_on(self, uid: str, priority: int, scheduler_names: Container[str]) -> list[Nomination]:
        """Return those that count when a pod is judged: others of its priority or more, of these schedulers."""
        return [
            nomination
            for nomination in self._by_uid.values()
            if nomination.priority >= priority
            and nomination.uid != uid
            and nomination.scheduler_name in scheduler_names
        ]

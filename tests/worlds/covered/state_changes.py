"""Counts the state changes of pods in placements and in the scheduling queue, as the drawings at their heads have them.

The product knows nothing of it: the methods of its classes are wrapped while `counted` runs.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock
from weakref import WeakKeyDictionary

from extender_service.cluster.state.placements import Placement, Placements
from extender_service.framework.events import UNSCHEDULABLE_TIMEOUT
from extender_service.kube.types.pods import pod_uid
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.queue.waiting_queues import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE, WaitingQueues
from extender_service.scheduling.binder import Binder

_IN_FLIGHT: Final = "in flight"

# The arrows of the drawings. The end of a pod counts as a drop where Unreserve runs, and not at all where PostBind has.
PLACEMENT_CHANGES: Final = (
    "place: reserved",
    "reserved: assumed",
    "reserved: dropped",
    "assumed: fulfilled",
    "assumed: dropped",
)
QUEUE_CHANGES: Final = (
    "new: active",
    "new: gated",
    "gated: active",
    "active: in flight",
    "in flight: done",
    "in flight: unschedulable",
    "in flight: backoff",
    "unschedulable: backoff",
    "unschedulable: active",
    "unschedulable: active or backoff after 5 minutes",
    "backoff: active",
    "active: gone",
    "backoff: gone",
    "unschedulable: gone",
)


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count changes until the context ends, as "before: after"."""
    changes: Counter[str] = Counter()
    queues = _Queues(changes)
    with (
        mock.patch.object(Placements, "place", _place(changes)),
        mock.patch.object(Placements, "drop_unreported", _ended(changes, Placements.drop_unreported, "dropped")),
        mock.patch.object(Placements, "fulfil_unreported", _ended(changes, Placements.fulfil_unreported, "fulfilled")),
        mock.patch.object(Placements, "hand_over", _ended(changes, Placements.hand_over, "fulfilled")),
        mock.patch.object(Binder, "_bind_in_task", _bind(changes)),
        mock.patch.object(WaitingQueues, "move_to_active", queues.moved(WaitingQueues.move_to_active)),
        mock.patch.object(WaitingQueues, "move_to_backoff", queues.moved(WaitingQueues.move_to_backoff)),
        mock.patch.object(WaitingQueues, "requeue", queues.moved(WaitingQueues.requeue)),
        mock.patch.object(SchedulingQueue, "pop", queues.popped(SchedulingQueue.pop)),
        mock.patch.object(SchedulingQueue, "done", queues.done(SchedulingQueue.done)),
        mock.patch.object(SchedulingQueue, "delete", queues.deleted(SchedulingQueue.delete)),
    ):
        yield changes


def _place(changes: Counter[str]) -> Callable[..., Placement]:
    place = Placements.place

    def wrapped(self: Placements, *arguments: Any, **named: Any) -> Placement:
        placement = place(self, *arguments, **named)
        changes["place: reserved"] += 1
        return placement

    return wrapped


def _ended(changes: Counter[str], end: Callable[[Placements, str], Any], how: str) -> Callable[[Placements, str], Any]:
    def wrapped(self: Placements, uid: str) -> Any:
        placement = self.get(uid)
        if placement is not None:
            changes[f"{'assumed' if placement.assumed else 'reserved'}: {how}"] += 1
        return end(self, uid)

    return wrapped


def _bind(changes: Counter[str]) -> Callable[..., Any]:
    bind = Binder._bind_in_task

    async def wrapped(self: Binder, placement: Placement) -> None:
        if self._placements.get(placement.uid) is placement:
            changes["reserved: assumed"] += 1
        await bind(self, placement)

    return wrapped


class _Queues:
    """Where each pod of each queue was last."""

    def __init__(self, changes: Counter[str]) -> None:
        self._changes = changes
        self._places: WeakKeyDictionary[WaitingQueues, dict[str, str]] = WeakKeyDictionary()

    def moved(self, move: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what puts a pod somewhere. A pod may be taken from where it was before that is called."""

        def wrapped(queues: WaitingQueues, info: QueuedPodInfo, *arguments: Any, **named: Any) -> Any:
            answer = move(queues, info, *arguments, **named)
            flushed = UNSCHEDULABLE_TIMEOUT.label in arguments
            self._note(queues, info.key, _place_of(queues, info), how=" or backoff after 5 minutes" if flushed else "")
            return answer

        return wrapped

    def popped(self, pop: Callable[[SchedulingQueue], QueuedPodInfo | None]) -> Callable[..., Any]:
        """Wrap what takes the next pod."""

        def wrapped(queue: SchedulingQueue) -> QueuedPodInfo | None:
            info = pop(queue)
            if info is not None:
                self._note(queue._queues, info.key, _IN_FLIGHT)
                self._places_in(queue._queues)[pod_uid(info.pod)] = info.key
            return info

        return wrapped

    def done(self, done: Callable[[SchedulingQueue, str], None]) -> Callable[..., None]:
        """Wrap what ends an attempt."""

        def wrapped(queue: SchedulingQueue, uid: str) -> None:
            places = self._places_in(queue._queues)
            key = places.pop(uid, "")
            if places.get(key) == _IN_FLIGHT:
                self._changes["in flight: done"] += 1
                del places[key]
            done(queue, uid)

        return wrapped

    def deleted(self, delete: Callable[..., None]) -> Callable[..., None]:
        """Wrap what forgets a pod; its attempt, if it is in flight, goes on."""

        def wrapped(queue: SchedulingQueue, pod: Any) -> None:
            places = self._places_in(queue._queues)
            key = f"{pod.metadata.namespace}/{pod.metadata.name}"
            place = places.get(key, _IN_FLIGHT)
            if place != _IN_FLIGHT:
                self._changes[f"{place}: gone"] += 1
                del places[key]
            delete(queue, pod)

        return wrapped

    def _note(self, queues: WaitingQueues, key: str, now: str, how: str = "") -> None:
        places = self._places_in(queues)
        before = places.get(key, "new")
        if before == now:
            return
        places[key] = now
        self._changes[f"{before}: {f'{ACTIVE}{how}' if how else now}"] += 1

    def _places_in(self, queues: WaitingQueues) -> dict[str, str]:
        return self._places.setdefault(queues, {})


def _place_of(queues: WaitingQueues, info: QueuedPodInfo) -> str:
    if info.key in queues.active:
        return ACTIVE
    if info.key in queues.backing_off:
        return BACKOFF
    return GATED if info.gated else UNSCHEDULABLE

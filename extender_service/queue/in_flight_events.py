"""What happened while pods were in flight, which the queue looks at when one of them comes back rejected.

Events are in a list, and each pod has a position in it: the events from there on are those that it has missed. Events
before the position of the oldest pod are dropped. kube-scheduler has pods and events in one list (inFlightEvents), and
walks over all younger pods to find the events. As there, this is used only with queueing hints.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from extender_service.framework.cluster_event import ClusterEvent

# How inflight_events names a pod in flight, which is in kube-scheduler's list, too.
POD_POPPED: Final = "PodPopped"

# Below this length, dropped events are not worth a new list.
_SHORT = 64


class InFlightEvent(NamedTuple):
    """A change, and the object before and after it."""

    event: ClusterEvent
    old: Any
    new: Any


class InFlightEvents:
    """Pods in flight by UID, and the events since the oldest of them left the queue."""

    def __init__(self) -> None:
        # Positions are counted from the first event ever, and _events begins at position _start.
        self._positions: OrderedDict[str, int] = OrderedDict()
        self._events: list[InFlightEvent | None] = []
        self._start = 0
        self._oldest = 0

    def __len__(self) -> int:
        """How many pods are in flight."""
        return len(self._positions)

    def __contains__(self, uid: str) -> bool:
        return uid in self._positions

    def __iter__(self) -> Iterator[str | InFlightEvent]:
        """Yield the UIDs of pods and the events, in the order in which they came."""
        position = self._oldest
        for uid, its_position in self._positions.items():
            yield from self._between(position, its_position)
            yield uid
            position = its_position
        yield from self._between(position, self._start + len(self._events))

    def counts(self) -> Counter[str]:
        """Return how many events are kept, by label, and how many pods are in flight, under POD_POPPED."""
        counts = Counter(each.event.label for each in self._events if each is not None)
        if self._positions:
            counts[POD_POPPED] = len(self._positions)
        return counts

    def start(self, uid: str) -> None:
        """Note that a pod leaves the queue. An earlier attempt of the same pod is done with that."""
        self.done(uid)
        self._positions[uid] = self._start + len(self._events)
        self._drop()

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Note a change, for the pods that are in flight now."""
        if self._positions:
            self._events.append(InFlightEvent(event, old, new))

    def since(self, uid: str) -> Sequence[InFlightEvent]:
        """Return what happened since a pod left the queue, oldest first. Raises KeyError for a pod not in flight."""
        return self._between(self._positions[uid], self._start + len(self._events))

    def done(self, uid: str) -> None:
        """Note that a pod's attempt is over; nothing happens if it is not in flight."""
        if self._positions.pop(uid, None) is not None:
            self._drop()

    def _between(self, first: int, end: int) -> list[InFlightEvent]:
        return self._events[first - self._start : end - self._start]  # type: ignore[return-value]

    def _drop(self) -> None:
        """Drop the events that no pod has missed: objects at once, places when they are most of the list."""
        end = self._start + len(self._events)
        oldest = next(iter(self._positions.values()), end)
        for position in range(self._oldest, oldest):
            self._events[position - self._start] = None
        self._oldest = oldest
        dropped = oldest - self._start
        if dropped > _SHORT and 2 * dropped > len(self._events):
            del self._events[:dropped]
            self._start = oldest

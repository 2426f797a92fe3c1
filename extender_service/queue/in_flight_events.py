"""What happened while pods were in flight, which the queue looks at when one of them comes back rejected.

Events have a position, counted from the first event ever, and each pod has the position at which it left: the events
from there on are those that it has missed. Events before the position of the oldest pod are dropped. Those of a kind
are in one list, so a pod that was in flight for long looks only at the kinds that can matter to it: the plugins that
rejected it registered a few.

kube-scheduler has pods and events in one list (inFlightEvents), and walks over all younger pods and all events. As
there, this is used only with queueing hints.
"""

import heapq
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from extender_service.framework.cluster_event import ClusterEvent

# How inflight_events names a pod in flight, which is in kube-scheduler's list, too.
POD_POPPED: Final = "PodPopped"

# Below this length, dropped events are not worth a new list.
_SHORT = 64


class InFlightEvent(NamedTuple):
    """A change, and the object before and after it. No two have the same position, so they compare by it."""

    position: int
    event: ClusterEvent
    old: Any
    new: Any


class _Kind:
    """The events of one kind, oldest first."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._events: list[InFlightEvent | None] = []
        # Those before this index are dropped.
        self._first = 0

    def __len__(self) -> int:
        return len(self._events) - self._first

    def append(self, event: InFlightEvent) -> None:
        self._positions.append(event.position)
        self._events.append(event)

    def drop_before(self, position: int) -> None:
        """Drop the events before a position: objects at once, places when such places are most of the list."""
        first = self._index(position)
        self._events[self._first : first] = [None] * (first - self._first)
        self._first = first
        if first > _SHORT and 2 * first > len(self._events):
            del self._events[:first], self._positions[:first]
            self._first = 0

    def since(self, position: int) -> list[InFlightEvent]:
        """Return the events from a position on, none of which is dropped."""
        return self._events[self._index(position) :]  # type: ignore[return-value]

    def count_since(self, position: int) -> int:
        """Return how many events `since` returns."""
        return len(self._events) - self._index(position)

    def _index(self, position: int) -> int:
        return bisect_left(self._positions, position, self._first)


class InFlightEvents:
    """Pods in flight by UID, and the events since the oldest of them left the queue."""

    def __init__(self) -> None:
        self._positions: OrderedDict[str, int] = OrderedDict()
        self._kinds: dict[ClusterEvent, _Kind] = {}
        # Where the oldest pod left, and the position of the next event.
        self._oldest = 0
        self._end = 0

    def __len__(self) -> int:
        """How many pods are in flight."""
        return len(self._positions)

    def __contains__(self, uid: str) -> bool:
        return uid in self._positions

    def __iter__(self) -> Iterator[str | InFlightEvent]:
        """Yield the UIDs of pods and the events, in the order in which they came."""
        pods = deque(self._positions.items())
        for event in self._merged(self._oldest, lambda _: True):
            while pods and pods[0][1] <= event.position:
                yield pods.popleft()[0]
            yield event
        yield from (uid for uid, _ in pods)

    def counts(self) -> Counter[str]:
        """Return how many events are kept, by label, and how many pods are in flight, under POD_POPPED."""
        counts: Counter[str] = Counter()
        for event, kind in self._kinds.items():
            if kind:
                counts[event.label] += len(kind)
        if self._positions:
            counts[POD_POPPED] = len(self._positions)
        return counts

    def start(self, uid: str) -> None:
        """Note that a pod leaves the queue. An earlier attempt of the same pod is done with that."""
        self.done(uid)
        self._positions[uid] = self._end
        self._drop()

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Note a change, for the pods that are in flight now."""
        if not self._positions:
            return
        kind = self._kinds.get(event)
        if kind is None:
            kind = self._kinds[event] = _Kind()
        kind.append(InFlightEvent(self._end, event, old, new))
        self._end += 1

    def count_since(self, uid: str, matters: Callable[[ClusterEvent], bool]) -> int:
        """Return how many events `since` returns; 0 for a pod not in flight."""
        position = self._positions.get(uid)
        if position is None:
            return 0
        return sum(kind.count_since(position) for event, kind in self._kinds.items() if kind and matters(event))

    def since(self, uid: str, matters: Callable[[ClusterEvent], bool]) -> Iterator[InFlightEvent]:
        """Return what happened since a pod left the queue, oldest first, of the kinds that matter.

        `matters` is asked once for each kind. Raises KeyError for a pod not in flight.
        """
        return self._merged(self._positions[uid], matters)

    def done(self, uid: str) -> None:
        """Note that a pod's attempt is over; nothing happens if it is not in flight."""
        if self._positions.pop(uid, None) is not None:
            self._drop()

    def _merged(self, position: int, matters: Callable[[ClusterEvent], bool]) -> Iterator[InFlightEvent]:
        found = [kind.since(position) for event, kind in self._kinds.items() if kind and matters(event)]
        return iter(heapq.merge(*found))

    def _drop(self) -> None:
        """Drop the events that no pod has missed."""
        oldest = next(iter(self._positions.values()), self._end)
        if oldest == self._oldest:
            return
        self._oldest = oldest
        for kind in self._kinds.values():
            if kind:
                kind.drop_before(oldest)

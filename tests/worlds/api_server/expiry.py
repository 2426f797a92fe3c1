"""Events go an hour after their last write."""

from collections import deque
from collections.abc import Callable

from tests.worlds.api_server.etcd import Change, Etcd
from tests.worlds.api_server.kinds import CORE_EVENTS, EVENTS, Kind

TTL_SECONDS = 3600.0


class EventExpiry:
    """Deletes the events of an Etcd as they expire, as etcd's leases do."""

    def __init__(self, etcd: Etcd, clock: Callable[[], float]) -> None:
        self._etcd = etcd
        self._clock = clock
        self._due: deque[tuple[float, Kind, str, int]] = deque()
        etcd.listeners.append(self._note)
        etcd.on_restore.append(self._begin_again)

    def step(self) -> None:
        """Delete what has expired."""
        while self._due and self._due[0][0] <= self._clock():
            _, kind, key, revision = self._due.popleft()
            item = self._etcd.get(kind, key)
            if item is not None and item.revision == revision:
                self._etcd.delete(kind, key)

    def due_at(self) -> float:
        """Return when the next one expires."""
        return self._due[0][0] if self._due else float("inf")

    def _begin_again(self) -> None:
        """Let the events of a backup expire an hour from now."""
        at = self._clock() + TTL_SECONDS
        events = ((kind, item) for kind in (EVENTS, CORE_EVENTS) for item in self._etcd.all(kind))
        self._due = deque((at, kind, item.key, item.revision) for kind, item in events)

    def _note(self, kind: Kind, change: Change) -> None:
        if kind in (EVENTS, CORE_EVENTS) and change.after is not None:
            self._due.append((change.at + TTL_SECONDS, kind, change.item.key, change.revision))

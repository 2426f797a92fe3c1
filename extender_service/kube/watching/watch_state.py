"""How far what watches have brought can be trusted: each by itself, and all watches of one API server together.

What shows that a kind is known as it was at some moment:

- A list, an event, a bookmark or the punctual end of its own watch. Nodes and pods are judged by these alone.
- For other kinds, whose watches are quiet for a minute: their connection is open, so the kernel has had signs of life
  from its other end (`connector.GONE_SECONDS`), and the API server has sent something over another watch since. A
  proxy or load balancer may give signs of life for an API server that is gone. Then nothing comes over the watches of
  nodes and pods either. Or its end, or a bookmark, is missing after a minute, and the kind is listed.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from extender_service.kube.connection.connector import GONE_SECONDS
from extender_service.kube.connection.event_stream import EventStream


@dataclass
class WatchState:
    """How far a store can be trusted, at any time; times are seconds of `time.monotonic`.

    - `synced`: the first list has been applied in full
    - `heard_at`: the store has what the server had then, as lists and ended watches show; at first, when this was made
    - `watch`: the one that is open, since `opened_at`, if the server knows the version that was seen; `last_error`: why
      there is none
    - `server`: the other watches that count while this one is quiet; None if they do not

    The counters are for metrics; `relists` counts the lists that an expired resource version made necessary.
    """

    heard_at: float
    synced: bool = False
    watch: EventStream[Any] | None = None
    opened_at: float = 0.0
    server: "ServerWatches | None" = None
    last_error: str | None = None
    last_resource_version: str = ""
    lists: int = 0
    watches: int = 0
    relists: int = 0
    events: Counter[str] = field(default_factory=Counter)

    @property
    def seen_at(self) -> float:
        """Until when the store follows the server, as its own lists and watches show."""
        return self.heard_at if self.watch is None else max(self.heard_at, self.watch.current_at)

    @property
    def current_at(self) -> float:
        """Until when the store follows the server; while all is well, seconds ago at most."""
        seen_at = self.seen_at
        if self.watch is None or self.server is None:
            return seen_at
        alive_at = self.server.alive_at
        # Events from before the watch was open may still be on their way.
        return max(seen_at, alive_at) if alive_at >= self.opened_at else seen_at


class ServerWatches:
    """The watches of one API server. `begun_at` is when this was made, in seconds of `clock`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.begun_at = clock()
        self._clock = clock
        self._watches: list[_Watch] = []

    def add(self, state: WatchState, doubt: Callable[[float], None], try_now: Callable[[], None]) -> None:
        """Add a watch.

        `doubt(since)` must open it again, unless it has received something since that time. `try_now()` must end a wait
        for the next try; if the API server has asked for the wait, not before its first seconds are over.
        """
        self._watches.append(_Watch(state, doubt, try_now))

    @property
    def alive_at(self) -> float:
        """When the API server was alive, and so was the other end of every connection that is open now."""
        heard_at = max(watch.state.seen_at for watch in self._watches)
        return min(heard_at, self._clock() - GONE_SECONDS)

    def fell_silent(self, since: float) -> None:
        """Doubt all watches that have received nothing since then: what cut one off may have cut off others."""
        for watch in self._watches:
            watch.doubt(since)

    def answers_again(self) -> None:
        """Try all watches now that are not open: the API server has answered one that had failed."""
        for watch in self._watches:
            watch.try_now()


class _Watch(NamedTuple):
    state: WatchState
    doubt: Callable[[float], None]
    try_now: Callable[[], None]

"""Limits for open connections: their number, the time that each takes, the bytes that wait to be sent."""

import asyncio
import math
import time
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from extender_service.seams import Clock
from extender_service.serving.refusals import Refusals

_LOOK_SECONDS = 1.0
# Seconds. If a check runs later than this, the event loop was busy and could read nothing: the callers were not slow.
_LATE_SECONDS = 1.0
# The time in which a new connection, a probe's for example, may end its handshake and begin to send its request.
_SETTLING_SECONDS = 1.0
# Of strangers, at one time.
_MOST_LOOKED_AT = 100


@dataclass(frozen=True)
class ConnectionLimits:
    """What connections may take.

    - `connections`: how many may be open, including those in the TLS handshake
    - `handshake_seconds`: for the TLS handshake
    - `header_bytes`, `header_seconds`: for the head of a request, from its first byte
    - `request_seconds`: for the whole request; and for reading the answer
    - `idle_seconds`: between requests. Go's client closes idle connections after 90 s. A server that closes earlier
      can lose a request that is on its way, so this is longer
    - `unsent_bytes`: of all answers that callers have not read yet, together
    """

    connections: int = 5_000
    handshake_seconds: float = 10.0
    header_bytes: int = 16 << 10
    header_seconds: float = 10.0
    request_seconds: float = 30.0
    idle_seconds: float = 130.0
    unsent_bytes: int = 512 << 20


class Connection(Protocol):
    """An open connection.

    `due` is when its patience ends, in seconds of LimitedConnections.clock; `is_busy` while a request that has come
    whole is not answered, `is_reading` while one has come in part; `unsent_since` when the caller stopped to take an
    answer, None if it takes it.
    """

    due: float
    unsent_since: float | None

    @property
    def is_busy(self) -> bool:
        """Whether it must stay open, as a complete request waits for its answer."""

    @property
    def is_reading(self) -> bool:
        """Whether a request has come in part, and the rest is awaited."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers that the caller has not read yet."""

    def hang_up(self) -> None:
        """Close the connection at once."""


class LimitedConnections:
    """The connections of one server.

    At the limit, a new connection replaces a stranger, which has never sent a complete request, or the known one that
    has been idle for longest since its last, whichever are more. So a client that opens many connections pushes out its
    own, not those of kube-scheduler, nor a probe that has just connected. If there is none of the one kind, one of the
    other goes. A known connection that is sending a request goes after those, as its call would fail. Only a stranger
    of the last second stays rather than it, where known ones are more.
    """

    def __init__(self, limits: ConnectionLimits, refusals: Refusals, clock: Clock = time.monotonic) -> None:
        self.limits = limits
        self.refusals = refusals
        self.clock = clock
        # When each was opened: the oldest is first.
        self._strangers: dict[Connection, float] = {}
        self._known: dict[Connection, None] = {}
        self._unsent: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def open(self, task: asyncio.Task[None]) -> None:
        """Count a connection that `task` is opening; the task calls `add` once it is open."""
        opening = _Opening(task)
        self._strangers[opening] = self.clock()
        task.add_done_callback(lambda _: self.remove(opening))

    def add(self, connection: Connection) -> None:
        """Count an open connection."""
        self._strangers[connection] = self.clock()

    def has_asked(self, connection: Connection) -> None:
        """Note that the first complete request has arrived on a connection."""
        if self._strangers.pop(connection, None) is not None:
            self._known[connection] = None

    def remove(self, connection: Connection) -> None:
        """Forget a closed connection."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)
        self._unsent.pop(connection, None)

    def make_room(self) -> bool:
        """Make room for one more connection, by closing another if needed; returns whether there is room."""
        if len(self) < self.limits.connections:
            return True
        self.refusals.add("crowd", f"more than {self.limits.connections} are open (--max-connections)")
        settled_by = self.clock() - _SETTLING_SECONDS
        if len(self._strangers) < len(self._known):
            replaced = self._known_idle() or self._stranger(settled_by) or self._known_reading() or self._stranger()
        else:
            replaced = self._stranger(settled_by) or self._stranger() or self._known_idle() or self._known_reading()
        if replaced is not None:
            self._close(replaced)
        return replaced is not None

    def pause(self, connection: Connection) -> None:
        """Note that a caller reads its answer more slowly than it is sent."""
        connection.unsent_since = self.clock()
        self._unsent[connection] = None
        while sum(each.unsent_bytes for each in self._unsent) > self.limits.unsent_bytes:
            oldest = next(iter(self._unsent))
            self.refusals.add("slow", "too many answers are not taken by their callers")
            self._close(oldest)

    def resume(self, connection: Connection) -> None:
        """Note that a caller reads its answer again."""
        connection.unsent_since = None
        self._unsent.pop(connection, None)

    async def watch(self) -> None:
        """Close connections that are too slow, checked once a second."""
        while True:
            expected = self.clock() + _LOOK_SECONDS
            await asyncio.sleep(_LOOK_SECONDS)
            self.look(self.clock() - expected)

    def look(self, late_seconds: float) -> None:
        """Close connections that are past their deadlines, which are extended by the time that this check is late."""
        now = self.clock()
        for connection in [*self._strangers, *self._known]:
            if late_seconds > _LATE_SECONDS:
                connection.due += late_seconds
            unsent_since = connection.unsent_since
            if unsent_since is not None and now > unsent_since + self.limits.request_seconds:
                self.refusals.add("slow", "an answer was not taken in time (--request-timeout)")
                self._close(connection)
            elif now > connection.due:
                self._close(connection)

    def _stranger(self, opened_by: float = math.inf) -> Connection | None:
        """Return the stranger to close first, of those that were open by then: the oldest idle one, or else the oldest
        that is sending its first request. Only the oldest strangers are looked at: there may be thousands."""
        reading = None
        for stranger, opened_at in islice(self._strangers.items(), _MOST_LOOKED_AT):
            if opened_at > opened_by:
                break
            if _is_idle(stranger):
                return stranger
            reading = reading or stranger
        return reading

    def _known_idle(self) -> Connection | None:
        return min(filter(_is_idle, self._known), key=_due, default=None)

    def _known_reading(self) -> Connection | None:
        return min(filter(_is_only_reading, self._known), key=_due, default=None)

    def _close(self, connection: Connection) -> None:
        self.remove(connection)
        connection.hang_up()


def _due(connection: Connection) -> float:
    return connection.due


def _is_idle(connection: Connection) -> bool:
    return not connection.is_busy and not connection.is_reading


def _is_only_reading(connection: Connection) -> bool:
    return connection.is_reading and not connection.is_busy


class _Opening:
    """A connection in the TLS handshake, which has its own time limit."""

    due = math.inf
    unsent_since: float | None = None
    is_busy = False
    is_reading = False
    unsent_bytes = 0

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def hang_up(self) -> None:
        self._task.cancel()

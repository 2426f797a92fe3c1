"""The open connections, held to limits: how many there are, how long each takes, what waits to be sent."""

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Protocol

from extender_service.seams import Clock
from extender_service.serving.refusals import Refusals

_LOOK_SECONDS = 1.0
# A look that is later than this comes after a time in which nothing could be read: nobody was slow then.
_LATE_SECONDS = 1.0


@dataclass(frozen=True)
class ConnectionLimits:
    """What connections may take.

    - `connections`: how many may be open, those that are being opened among them
    - `handshake_seconds`: for the TLS handshake
    - `header_bytes`, `header_seconds`: for the head of a request, from its first byte
    - `request_seconds`: for all of it; and for taking the answer
    - `idle_seconds`: between requests. Go's client keeps idle connections for 90 s: whoever closes first can lose a
      request, so it must not be us
    - `unsent_bytes`: of all answers that are not taken, together
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
    whole is not answered; `unsent_since` when the caller stopped to take an answer, None if it takes it.
    """

    due: float
    unsent_since: float | None

    @property
    def is_busy(self) -> bool:
        """Whether it may not be closed."""

    @property
    def unsent_bytes(self) -> int:
        """How much the caller has not taken yet."""

    def hang_up(self) -> None:
        """Close it at once."""


class LimitedConnections:
    """The connections of one server.

    Where there are too many, a new one takes the place of the oldest that has never sent a whole request, else of the
    one that is idle for longest. So strangers who open many get in each other's way, not in that of kube-scheduler.
    """

    def __init__(self, limits: ConnectionLimits, refusals: Refusals, clock: Clock = time.monotonic) -> None:
        self.limits = limits
        self.refusals = refusals
        self.clock = clock
        self._strangers: dict[Connection, None] = {}
        self._known: dict[Connection, None] = {}
        self._unsent: dict[Connection, None] = {}

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def open(self, task: asyncio.Task[None]) -> None:
        """A connection is being opened by a task, which adds it."""
        opening = _Opening(task)
        self._strangers[opening] = None
        task.add_done_callback(lambda _: self.remove(opening))

    def add(self, connection: Connection) -> None:
        """A connection is open."""
        self._strangers[connection] = None

    def has_asked(self, connection: Connection) -> None:
        """Its first whole request has come."""
        if self._strangers.pop(connection, connection) is None:
            self._known[connection] = None

    def remove(self, connection: Connection) -> None:
        """A connection is closed."""
        self._strangers.pop(connection, None)
        self._known.pop(connection, None)
        self._unsent.pop(connection, None)

    def make_room(self) -> bool:
        """Let one more connection be opened; returns whether there is room for it."""
        if len(self) < self.limits.connections:
            return True
        self.refusals.add("crowd", f"more than {self.limits.connections} are open (--max-connections)")
        stranger = next((each for each in self._strangers if not each.is_busy), None)
        idle = stranger or min((each for each in self._known if not each.is_busy), key=_due, default=None)
        if idle is not None:
            self._close(idle)
        return idle is not None

    def pause(self, connection: Connection) -> None:
        """A caller does not take its answer as fast as it is sent."""
        connection.unsent_since = self.clock()
        self._unsent[connection] = None
        while sum(each.unsent_bytes for each in self._unsent) > self.limits.unsent_bytes:
            oldest = next(iter(self._unsent))
            self.refusals.add("slow", "too many answers are not taken by their callers")
            self._close(oldest)

    def resume(self, connection: Connection) -> None:
        """A caller goes on to take its answer."""
        connection.unsent_since = None
        self._unsent.pop(connection, None)

    async def watch(self) -> None:
        """Hang up on those who are too slow, once a second."""
        while True:
            expected = self.clock() + _LOOK_SECONDS
            await asyncio.sleep(_LOOK_SECONDS)
            self.look(self.clock() - expected)

    def look(self, late_seconds: float) -> None:
        """Hang up on those who are too slow, but for the time in which we were."""
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

    def _close(self, connection: Connection) -> None:
        self.remove(connection)
        connection.hang_up()


def _due(connection: Connection) -> float:
    return connection.due


class _Opening:
    """A connection in the middle of the TLS handshake, which has a time limit of its own."""

    due = math.inf
    unsent_since: float | None = None
    is_busy = False
    unsent_bytes = 0

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def hang_up(self) -> None:
        self._task.cancel()

"""HTTP/1.1 connections to one API server, each lent to one request at a time.

An answer that is still to come holds its connection, so one that hangs must hold up no other request. How the number of
connections follows that of requests:

- A request takes the connection that was given back last. So those that are no longer needed stay idle, and are closed
  after a minute.
- If none is idle, a request waits for whichever comes first: a connection that is given back, or its turn to open one.
  Only a few are opened at once. A thousand TLS handshakes that begin together take longer than any of them may, and
  hold up the event loop; and where answers are quick, a few connections serve a thousand requests before that many
  could be opened.
- More than 32 whose answers may still come soon are of no use: a handshake costs as much as many writes, and an API
  server that is at its limit answers no more requests because more are under way. So further ones are opened only for
  requests that hang, and as many as there are requests if nothing is answered at all.

Connections are closed early where they cannot be trusted: when another client certificate is to be shown or other
authorities are trusted (a request that is under way may end first), and when one has fallen silent. What cut that one
off silently (a firewall that dropped its state, a host that is gone) may have cut off the idle ones that have received
nothing since, and each of them would cost a request its whole timeout.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from itertools import islice
from types import TracebackType

from extender_service.kube.api_errors import ApiError, SilentError, UnreachableError
from extender_service.kube.connection.connector import IDLE_SECONDS, Connector
from extender_service.kube.connection.http_connection import HttpConnection
from extender_service.kube.credentials.client_tls import ServerTrust
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.identity import Identity
from extender_service.kube.credentials.lookup import Credentials

# How many connections are opened at once. One that takes longer than this no longer counts, so that a host that does
# not answer holds up no request that another one would answer.
_MOST_OPENING = 4
_OPENING_SECONDS = 0.05

# So many requests keep an API server busy, if they are not older than this, and if one was answered lately.
_ENOUGH = 32
_HANGS_SECONDS = 0.25
_LATELY_SECONDS = 0.05

# What TLS begins with: whom we trust, our certificate, and its key.
_Tls = tuple[ServerTrust, bytes, bytes]


class ConnectionPool:
    """Lends connections, and closes those that are no longer needed or trusted."""

    def __init__(self, credentials: Credentials, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._credentials = credentials
        self._connector = Connector(credentials)
        self._clock = clock
        self._tls: _Tls | None = None
        self._idle: deque[_Connection] = deque()  # in the order in which they were given back
        self._lent: dict[_Connection, float] = {}  # since when, in the order in which they were lent
        self._answered_at = clock()
        self._next_look: asyncio.TimerHandle | None = None
        self._opening = 0
        self._waiting: deque[asyncio.Future[_Connection]] = deque()
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def lend(self, identity: Identity, *, at_once: bool = False) -> "Loan":
        """Lend a connection that shows this identity's certificate, for one request. Raises CredentialsError.

        It may not be open yet. `at_once` is for the few requests that must not wait behind others: if no connection is
        idle, one is opened out of turn.
        """
        self._show(identity)
        connection = self._take_idle()
        if connection is None:
            connection = self._open() if at_once or self._may_open() else await self._wait()
        return Loan(self, connection)

    def end(self, connection: "_Connection", error: BaseException | None) -> None:
        """Take a connection back, after a request that ended with this error.

        A SilentError closes the idle connections that were silent for as long.
        """
        if error is None or isinstance(error, ApiError):
            connection.heard_at = self._answered_at = self._clock()
        elif isinstance(error, SilentError):
            connection.close()
            self._distrust(self._clock() - error.seconds)
        self._give_back(connection)

    async def close(self) -> None:
        """Close all connections, also those of requests under way."""
        self._is_closed = True
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
        while (waiting := self._next_waiting()) is not None:
            waiting.set_exception(UnreachableError("the connections were closed"))
        for connection in [*self._idle, *self._lent]:
            self._close(connection)
        self._idle.clear()
        await asyncio.gather(*self._closing)

    def _take_idle(self) -> "_Connection | None":
        while self._idle and self._idle[0].idle_since < self._clock() - IDLE_SECONDS:
            self._close(self._idle.popleft())
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                self._lent[connection] = self._clock()
                return connection
            self._close(connection)
        return None

    async def _wait(self) -> "_Connection":
        """Wait for a connection that is given back or may be opened, in turn."""
        waiting: asyncio.Future[_Connection] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._set_timer()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                self._give_back(waiting.result())
            raise

    def _give_back(self, connection: "_Connection") -> None:
        self._lent.pop(connection, None)
        self._has_opened(connection)  # or could not be
        if not connection.is_open or connection.tls != self._tls or self._is_closed:
            self._close(connection)
        elif (waiting := self._next_waiting()) is not None:
            self._lent[connection] = self._clock()
            waiting.set_result(connection)
        else:
            connection.idle_since = self._clock()
            self._idle.append(connection)

    def _open(self) -> "_Connection":
        connection = _Connection(self._credentials.shown_server, self._connector, self._has_opened, self._tls)
        connection.opening = asyncio.get_running_loop().call_later(_OPENING_SECONDS, self._has_opened, connection)
        self._opening += 1
        self._lent[connection] = self._clock()
        return connection

    def _may_open(self) -> bool:
        """Return whether a request that finds no idle connection may open one."""
        if self._opening >= _MOST_OPENING:
            return False
        if len(self._lent) < _ENOUGH:
            return True
        now = self._clock()
        newest = islice(reversed(self._lent.values()), _ENOUGH - 1, None)
        return now > next(newest) + _HANGS_SECONDS or now > self._answered_at + _LATELY_SECONDS

    def _set_timer(self) -> None:
        """Let requests that wait open connections as soon as others hang."""
        if self._next_look is None:
            self._next_look = asyncio.get_running_loop().call_later(_LATELY_SECONDS, self._look)

    def _look(self) -> None:
        self._next_look = None
        while self._may_open() and (waiting := self._next_waiting()) is not None:
            waiting.set_result(self._open())
        if self._waiting:
            self._set_timer()

    def _has_opened(self, connection: "_Connection") -> None:
        """Let another connection be opened in place of this one, if it counted among those."""
        if connection.opening is None:
            return
        connection.opening.cancel()
        connection.opening = None
        self._opening -= 1
        if self._may_open() and (waiting := self._next_waiting()) is not None:
            waiting.set_result(self._open())

    def _next_waiting(self) -> "asyncio.Future[_Connection] | None":
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():  # it was cancelled
                return waiting
        return None

    def _show(self, identity: Identity) -> None:
        """Have connections show this identity's certificate to those whom we trust now, and close other idle ones."""
        trust = self._credentials.trust.current()
        tls = (trust, identity.certificate_pem, identity.key_pem)
        if tls == self._tls:
            return
        try:
            self._connector.show(identity, trust)
        except CredentialsError:
            # An exec plugin has answered with what cannot be used: ask it again before the next request.
            self._credentials.identity.doubt(identity)
            raise
        self._tls = tls
        self._distrust(since=float("inf"))

    def _distrust(self, since: float) -> None:
        """Close the idle connections over which no whole answer has come since then."""
        idle, self._idle = self._idle, deque()
        for connection in idle:
            if connection.heard_at >= since:
                self._idle.append(connection)
            else:
                self._close(connection)

    def _close(self, connection: "_Connection") -> None:
        connection.close()
        task = asyncio.create_task(connection.wait_closed())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


class Loan:
    """One request's use of a connection: a context, whose end gives the connection back. Or call `end`."""

    __slots__ = ("_lent", "_pool")

    def __init__(self, pool: ConnectionPool, lent: "_Connection") -> None:
        self._pool = pool
        self._lent = lent

    @property
    def connection(self) -> HttpConnection:
        """The connection."""
        return self._lent

    def end(self, error: BaseException | None) -> None:
        """Give the connection back; `error` is how the request ended."""
        self._pool.end(self._lent, error)

    def __enter__(self) -> HttpConnection:
        return self._lent

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(error)


class _Connection(HttpConnection):
    """One connection. `heard_at`: when an answer last came over it, whole. `opening`: runs out while it is opened."""

    def __init__(
        self,
        server: str,
        connector: Connector,
        on_open: Callable[["_Connection"], None],
        tls: _Tls | None,
    ) -> None:
        super().__init__(server, connector)
        self.tls = tls
        self.opening: asyncio.TimerHandle | None = None
        self.heard_at = self.idle_since = 0.0
        self._on_open = on_open

    async def open(self, seconds: float) -> None:
        """Open the connection, and report that it is open."""
        await super().open(seconds)
        self._on_open(self)

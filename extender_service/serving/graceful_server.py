"""A server that loses no call when it stops.

uvicorn closes an idle connection at once, though a request may be on its way or half read: its caller gets a reset, and
kube-scheduler does not ask again. Here, from the signal on, every answer asks the caller to open a new connection
(`Connection: close`), and a connection is closed only if no part of a request has arrived on it.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from extender_service.serving.browsers import BrowserGuard
from extender_service.serving.connection_limits import LimitedConnections
from extender_service.serving.limited_server import LimitedServer
from extender_service.serving.shutdown import Shutdown
from extender_service.serving.socket_state import has_unread

log = logging.getLogger(__name__)

# A caller that has just connected is about to send a request.
_LINGER_SECONDS = 0.2
_LOOK_SECONDS = 0.02


class GracefulServer(LimitedServer):
    """Serves until `shutdown` gets a signal, and then until calls have finished or its budget of time is used up."""

    def __init__(
        self, config: uvicorn.Config, connections: LimitedConnections, guard: BrowserGuard, shutdown: Shutdown
    ) -> None:
        super().__init__(config, connections, guard)
        self._shutdown = shutdown

    async def on_tick(self, counter: int) -> bool:
        """Return whether to stop; uvicorn calls this ten times a second."""
        self.should_exit = self._shutdown.is_told
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ask callers to reconnect, then stop listening, then wait for calls under way. Some may not finish in time."""
        self._tell_callers_to_connect_anew()
        await asyncio.sleep(self._shutdown.delay_left)
        await asyncio.sleep(0)  # accepts the connections that wait for it
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        await asyncio.sleep(min(_LINGER_SECONDS, self._shutdown.work_left))
        await self._finish(lambda: self._shutdown.work_left)

    async def hang_up(self) -> None:
        """Send the last answers, as long as the budget of time allows it; then close all connections."""
        await self._finish(lambda: self._shutdown.answers_left)
        if self.server_state.tasks:
            log.warning("hanging up on calls that have not finished", extra={"calls": len(self.server_state.tasks)})
        for connection in self._connections():
            connection.transport.abort()
        for task in self.server_state.tasks:
            task.cancel()

    def _tell_callers_to_connect_anew(self) -> None:
        self.server_state.default_headers.append((b"connection", b"close"))
        for connection in self._connections():
            if not _is_answered(connection):
                connection.cycle.keep_alive = False

    async def _finish(self, seconds_left: Callable[[], float]) -> None:
        """Close connections as they become idle, until none has work left, or time runs out."""
        while seconds_left():
            for connection in self._connections():
                if _is_idle(connection):
                    connection.transport.close()
            if not self.server_state.tasks and not any(_has_work(connection) for connection in self._connections()):
                return
            await asyncio.sleep(_LOOK_SECONDS)

    def _connections(self) -> Iterator[HttpToolsProtocol]:
        for connection in list(self.server_state.connections):
            assert isinstance(connection, HttpToolsProtocol)
            yield connection


def _is_idle(connection: HttpToolsProtocol) -> bool:
    """Return whether no byte has arrived since the last answer, read or unread."""
    return _is_answered(connection) and not _has_begun_another(connection) and not has_unread(connection.transport)


def _is_answered(connection: HttpToolsProtocol) -> bool:
    cycle: RequestResponseCycle | None = connection.cycle  # that of the last request whose head is complete
    return cycle is None or cycle.response_complete


def _has_begun_another(connection: HttpToolsProtocol) -> bool:
    """Return whether a part of the next request's head has been read."""
    cycle: RequestResponseCycle | None = connection.cycle
    scope: object = connection.scope  # made with a request's first byte
    return scope is not (None if cycle is None else cycle.scope)


def _has_work(connection: HttpToolsProtocol) -> bool:
    """Return whether a connection has a request to read or to answer, or an answer to send."""
    # A closing connection counts only while bytes are unsent: a TLS client may take any time to confirm the close.
    return not connection.transport.is_closing() or connection.transport.get_write_buffer_size() > 0

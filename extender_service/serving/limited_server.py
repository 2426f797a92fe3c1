"""A server that bounds the number of its connections, including those in the TLS handshake."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from extender_service.serving.browsers import BrowserGuard
from extender_service.serving.connection_limits import LimitedConnections
from extender_service.serving.limited_http import LimitedHTTP

log = logging.getLogger(__name__)

# LimitedConnections to accept before others have their turn, and how long to wait where the system has no more to give.
_ACCEPTED_AT_ONCE = 100
_PAUSE_SECONDS = 1.0
# TLS handshakes that begin in one turn of the event loop: the first answer takes 0.3 ms of processor time, or more, for
# which calls wait.
HANDSHAKES_AT_ONCE = 8
# The time for answers to probes, after the last call has finished.
_PROBES_GRACE_SECONDS = 1


def server_config(app: ASGIApp, context: ssl.SSLContext | None = None) -> uvicorn.Config:
    """Return uvicorn's configuration for an app: nothing but HTTP, over TLS if there is a `context`."""
    config = uvicorn.Config(
        app,
        ws="none",
        proxy_headers=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_PROBES_GRACE_SECONDS,
    )
    if context is not None:
        config.load()
        config.ssl = context
    return config


class LimitedServer(uvicorn.Server):
    """uvicorn's server, with the limits of `connections`; `guard` checks the headers of all requests."""

    def __init__(self, config: uvicorn.Config, connections: LimitedConnections, guard: BrowserGuard) -> None:
        super().__init__(config)
        self._held = connections
        self._guard = guard

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program, which handles them also after this server has ended."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections on these sockets."""
        context = self.config.ssl
        acceptors = [Acceptor(listener, self._connection, self._held, context).start() for listener in sockets or ()]
        self.servers = acceptors  # type: ignore[assignment]
        self.started = True

    def _connection(self) -> LimitedHTTP:
        return LimitedHTTP(
            self._held,
            self._guard,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )


class Acceptor:
    """Accepts connections on a socket until it is closed, as asyncio.Server does."""

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.Protocol],
        connections: LimitedConnections,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Accept TLS connections if there is a `context`, plain ones otherwise."""
        self._listener = listener
        self._protocol = protocol
        self._connections = connections
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._handshakes = asyncio.Semaphore(HANDSHAKES_AT_ONCE)
        self._resumption: asyncio.TimerHandle | None = None

    def start(self) -> Self:
        """Begin to accept."""
        self._listener.settimeout(0)
        self._resumption = None
        self._loop.add_reader(self._listener.fileno(), self._accept)
        return self

    def close(self) -> None:
        """Accept no more connections; TLS handshakes under way go on."""
        if self._resumption is not None:
            self._resumption.cancel()
        self._loop.remove_reader(self._listener.fileno())

    async def wait_closed(self) -> None:
        """Wait until no TLS handshake is under way."""
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("cannot accept connections for a moment: %s", error.strerror)
                self._loop.remove_reader(self._listener.fileno())
                self._resumption = self._loop.call_later(_PAUSE_SECONDS, self.start)
                return
            if not self._connections.make_room():
                accepted.close()
                continue
            task = self._loop.create_task(self._open(accepted))
            self._connections.open(task)
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket) -> None:
        accepted.settimeout(0)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self._context is None:
                await self._loop.connect_accepted_socket(self._protocol, accepted)
            else:
                await self._shake_hands(accepted, self._context)
        except TimeoutError:
            self._connections.refusals.add("slow", "a TLS handshake did not end in time (--tls-handshake-timeout)")
        except OSError:
            pass  # server_tls.py counts and logs why a handshake failed

    async def _shake_hands(self, accepted: socket.socket, context: ssl.SSLContext) -> None:
        seconds = self._connections.limits.handshake_seconds
        async with asyncio.timeout(seconds):
            try:
                await self._first_bytes(accepted)
                await self._turn()
            except asyncio.CancelledError:
                accepted.close()
                raise
            # Its own limit, by default a minute, must not be less.
            await self._loop.connect_accepted_socket(
                self._protocol, accepted, ssl=context, ssl_handshake_timeout=seconds
            )

    async def _first_bytes(self, accepted: socket.socket) -> None:
        """Wait until the client has sent something: a silent client delays no other."""
        come = asyncio.Event()
        self._loop.add_reader(accepted.fileno(), come.set)
        try:
            await come.wait()
        finally:
            self._loop.remove_reader(accepted.fileno())

    async def _turn(self) -> None:
        """Wait until a handshake may begin, those of clients that came first before it."""
        await self._handshakes.acquire()
        # Not once it has ended: a client that never answers would keep others from theirs.
        self._loop.call_soon(self._handshakes.release)

"""A proxy between a client and the API server that does what is asked of it to some of the requests.

    async def refuses_every_read(exchange: Exchange) -> None:
        await (exchange.refuse(500, "InternalError") if exchange.method == "GET" else exchange.pass_on())

    with FaultyProxy(control_plane, refuses_every_read) as proxy:
        Service(directory, proxy.kubeconfig)

As with `kubectl proxy`, the client speaks plain HTTP/1.1, need not say who it is, and acts as the administrator.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import h11
import httpx
import yaml

from tests.e2e.control_plane import ControlPlane

# What a connection's headers say about itself is not passed on.
_OF_CONNECTION = {b"connection", b"host", b"keep-alive", b"transfer-encoding"}


class HangUpError(Exception):
    """Raised to close the client's connection without another word."""


class Exchange:
    """One request, for a handler to answer: `pass_on` is what an ordinary proxy does.

    `method` and `target` (the path with its query) are the request's; `status` is the API server's answer, None before.
    """

    def __init__(self, request: h11.Request, body: bytes, connection: "_Connection") -> None:
        self.method = request.method.decode()
        self.target = request.target.decode()
        self.status: int | None = None
        self._headers = list(request.headers)
        self._body = body
        self._connection = connection

    async def pass_on(self) -> None:
        """Ask the API server and relay its answer piece by piece, which a watch needs."""
        async with self.ask() as response:
            await self.start(response.status_code, response.headers.raw)
            async for piece in response.aiter_raw():
                await self.send(piece)
        await self.end()

    @asynccontextmanager
    async def ask(self) -> AsyncIterator[httpx.Response]:
        """Ask the API server, and leave it to the handler to read the answer."""
        headers = [(name, value) for name, value in self._headers if name not in _OF_CONNECTION]
        upstream = self._connection.upstream
        async with upstream.stream(self.method, self.target, headers=headers, content=self._body) as response:
            self.status = response.status_code
            yield response

    async def refuse(self, status: int, reason: str) -> None:
        """Answer with a metav1.Status in place of the API server."""
        answer = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
        await self.start(status, [(b"Content-Type", b"application/json")])
        await self.send(json.dumps(answer).encode())
        await self.end()

    async def lose_answer(self) -> None:
        """Let the API server do what was asked, and close the connection instead of saying so."""
        async with self.ask() as response:
            await response.aread()
        raise HangUpError

    async def start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send the head of an answer."""
        kept = [(name, value) for name, value in headers if name.lower() not in _OF_CONNECTION]
        await self._connection.send(h11.Response(status_code=status, headers=kept))

    async def send(self, piece: bytes) -> None:
        """Send a part of the answer's body."""
        await self._connection.send(h11.Data(data=piece))

    async def end(self) -> None:
        """Say that the answer is complete."""
        await self._connection.send(h11.EndOfMessage())


Handler = Callable[[Exchange], Awaitable[None]]


class FaultyProxy:
    """A proxy in a thread of its own, as a context manager; `handler` may be exchanged at any time."""

    def __init__(self, control_plane: ControlPlane, handler: Handler = Exchange.pass_on) -> None:
        self.handler = handler
        self.exchanges: list[Exchange] = []
        self._control_plane = control_plane
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._open(), self._loop).result()
        kubeconfig = self._administrator()
        kubeconfig["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
        kubeconfig["users"][0]["user"] = {}
        self.kubeconfig = self._control_plane.directory / f"proxy-{port}.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(kubeconfig))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _administrator(self) -> dict[str, Any]:
        kubeconfig: dict[str, Any] = yaml.safe_load(self._control_plane.kubeconfig.read_text())
        return kubeconfig

    async def _open(self) -> int:
        token = self._administrator()["users"][0]["user"]["token"]
        self._upstream = httpx.AsyncClient(
            base_url=self._control_plane.url,
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=str(self._control_plane.directory / "ca.crt")),
            limits=httpx.Limits(max_connections=None),
            timeout=None,
            trust_env=False,
        )
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._server.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await self._upstream.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer, self._upstream)
        try:
            while (exchange := await connection.next_request()) is not None:
                self.exchanges.append(exchange)
                await self.handler(exchange)
        except (HangUpError, ConnectionError, httpx.TransportError, asyncio.CancelledError):
            pass  # whatever the reason, the client sees a connection that is closed
        finally:
            writer.transport.abort()


class _Connection:
    """A client's connection, a request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: httpx.AsyncClient) -> None:
        self.upstream = upstream
        self._reader = reader
        self._writer = writer
        self._protocol = h11.Connection(h11.SERVER)

    async def next_request(self) -> Exchange | None:
        """Read a request; None once the client has closed the connection, or an answer could not keep it open."""
        if self._protocol.our_state is h11.MUST_CLOSE:
            return None
        if self._protocol.our_state is h11.DONE:
            self._protocol.start_next_cycle()
        request = await self._next_event()
        if not isinstance(request, h11.Request):
            return None
        body = b""
        while isinstance(part := await self._next_event(), h11.Data):
            body += part.data
        return Exchange(request, body, self)

    async def send(self, event: h11.Response | h11.Data | h11.EndOfMessage) -> None:
        self._writer.write(self._protocol.send(event) or b"")
        await self._writer.drain()

    async def _next_event(self) -> object:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            self._protocol.receive_data(await self._reader.read(65536))
        return event

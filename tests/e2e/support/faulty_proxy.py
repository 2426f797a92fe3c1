"""A proxy between a client and the API server that does what is asked of it to some of the requests.

    async def refuses_every_read(exchange: Exchange) -> None:
        await (exchange.refuse(500, "InternalError") if exchange.method == "GET" else exchange.pass_on())

    with FaultyProxy(control_plane, refuses_every_read) as proxy:
        Service(directory, proxy.kubeconfig)

As with `kubectl proxy`, the client speaks plain HTTP/1.1, need not say who it is, and acts as the administrator. With
an `Access` it must speak TLS, and be somebody.
"""

import asyncio
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import h11
import httpx
import yaml

from tests.e2e.support.programs.control_plane import ControlPlane

# What a connection's headers say about itself is not passed on, nor whom the client takes itself for.
_OF_CONNECTION = {b"authorization", b"connection", b"host", b"keep-alive", b"transfer-encoding"}


T = TypeVar("T")


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
        self._last_words: bytes | None = None

    @property
    def is_watch(self) -> bool:
        return "watch=1" in self.target

    @property
    def is_list(self) -> bool:
        """Whether it asks for all objects of a kind, or for a part of them."""
        return self.method == "GET" and "limit=" in self.target

    @property
    def resource(self) -> str:
        """The last part of the path: the plural name of what is listed or watched."""
        return self.target.partition("?")[0].rpartition("/")[2]

    @property
    def authorization(self) -> str:
        return next((value.decode() for name, value in self._headers if name == b"authorization"), "")

    @property
    def certificate(self) -> Mapping[str, Any]:
        """What the client has shown, as `ssl.SSLSocket.getpeercert` tells it; empty if it was nothing."""
        return self._connection.certificate

    async def pass_on(self) -> None:
        """Ask the API server and relay its answer piece by piece; of a watch, line by line."""
        try:
            async with self.ask() as response:
                await self.start(response.status_code, response.headers.raw)
                if self.is_watch and response.is_success:
                    async for line in lines_of(response):
                        await self._connection.proxy.on_event(self, line)
                else:
                    async for piece in response.aiter_raw():
                        await self.send(piece)
        except asyncio.CancelledError:
            if self._last_words is None or self._connection.is_silent:
                raise
            self._connection.task.uncancel()
            await self.send(self._last_words)
        await self.end()

    def end_with(self, line: bytes) -> None:
        """Have a watch that is being passed on end now, in an orderly way, after one more line. In the proxy's loop."""
        self._last_words = line
        self._connection.interrupt()

    def cut(self) -> None:
        """Have the connection closed now. In the proxy's loop."""
        self._connection.interrupt()

    @asynccontextmanager
    async def ask(self) -> AsyncIterator[httpx.Response]:
        """Ask the API server, and leave it to the handler to read the answer."""
        headers = [(name, value) for name, value in self._headers if name not in _OF_CONNECTION]
        upstream = self._connection.proxy.upstream
        async with upstream.stream(self.method, self.target, headers=headers, content=self._body) as response:
            self.status = response.status_code
            yield response

    async def refuse(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        """Answer with a metav1.Status in place of the API server."""
        answer = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
        await self.answer(status, json.dumps(answer).encode(), headers)

    async def answer(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Answer in place of the API server."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        await self.start(status, [(name.encode(), value.encode()) for name, value in sent.items()])
        await self.send(body)
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
EventHandler = Callable[[Exchange, bytes], Awaitable[None]]


class Access(Protocol):
    """Who may use the proxy, and how.

    `server` are the proxy's certificates, `cluster` and `user` what a kubeconfig has to say besides the server's URL.
    """

    server: ssl.SSLContext
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    def admits(self, exchange: Exchange) -> bool:
        """Whether the client of an exchange has proved who it is; the others are told 401."""


class FaultyProxy:
    """A proxy in a thread of its own, as a context manager.

    `handler` answers requests, and `on_event` passes each line of a watch on; both may be exchanged at any time, also
    for watches that are open. `exchanges` are all that there were, `under_way` those that have not been answered yet.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        handler: Handler = Exchange.pass_on,
        access: Access | None = None,
        *,
        url: str | None = None,
    ) -> None:
        """`url` is that of the API server behind the proxy, by default the control plane's first one."""
        self._upstream_url = url or control_plane.url
        self.handler = handler
        self.on_event: EventHandler = Exchange.send
        self.exchanges: list[Exchange] = []
        self.under_way: set[Exchange] = set()
        self._control_plane = control_plane
        self._access = access
        self._connections: set[_Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        port = self._run(self._open())
        kubeconfig = self._administrator()
        tls, user = (self._access.cluster, self._access.user) if self._access else ({}, {})
        url = f"{'https' if self._access else 'http'}://127.0.0.1:{port}"
        kubeconfig["clusters"][0]["cluster"] = {"server": url, **tls}
        kubeconfig["users"][0]["user"] = {**user}
        self.kubeconfig = self._control_plane.directory / f"proxy-{port}.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(kubeconfig))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, function: Callable[[Exchange], None], which: Callable[[Exchange], bool]) -> int:
        """Call a function with some of the exchanges under way, in the proxy's loop; returns with how many."""

        async def call() -> int:
            chosen = [exchange for exchange in self.under_way if which(exchange)]
            for exchange in chosen:
                function(exchange)
            return len(chosen)

        return self._run(call())

    def fall_silent(self) -> int:
        """Send nothing more over any connection, and close none; those that are to come wait for `accept_again`.

        Returns how many have fallen silent.
        """
        return self._run(self._fall_silent())

    def accept_again(self) -> None:
        """Serve the connections that have waited, and new ones. Those that have fallen silent remain so."""
        self._run(self._accept())

    def _run(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result()

    def _administrator(self) -> dict[str, Any]:
        kubeconfig: dict[str, Any] = yaml.safe_load(self._control_plane.kubeconfig.read_text())
        return kubeconfig

    async def _open(self) -> int:
        token = self._administrator()["users"][0]["user"]["token"]
        self.upstream = httpx.AsyncClient(
            base_url=self._upstream_url,
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=str(self._control_plane.directory / "ca.crt")),
            limits=httpx.Limits(max_connections=None),
            timeout=None,
            trust_env=False,
        )
        self._socket = socket.create_server(("127.0.0.1", 0))
        await self._accept()
        port: int = self._socket.getsockname()[1]
        return port

    async def _accept(self) -> None:
        tls = self._access.server if self._access else None
        # The system keeps connections waiting while nobody accepts them: the socket itself stays open.
        self._server = await asyncio.start_server(self._serve, sock=self._socket.dup(), ssl=tls)

    async def _fall_silent(self) -> int:
        self._server.close()
        for connection in self._connections:
            connection.is_silent = True
        return len(self._connections)

    async def _close(self) -> None:
        self._server.close()
        serving = asyncio.all_tasks() - {asyncio.current_task()}
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await self.upstream.aclose()
        self._socket.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(reader, writer, self)
        self._connections.add(connection)
        try:
            while (exchange := await connection.next_request()) is not None:
                self.exchanges.append(exchange)
                self.under_way.add(exchange)
                try:
                    await self._answer(exchange)
                finally:
                    self.under_way.discard(exchange)
        except (HangUpError, ConnectionError, ssl.SSLError, httpx.TransportError, asyncio.CancelledError):
            pass  # whatever the reason, the client sees a connection that is closed
        finally:
            self._connections.discard(connection)
            writer.transport.abort()

    async def _answer(self, exchange: Exchange) -> None:
        if self._access is None or self._access.admits(exchange):
            await self.handler(exchange)
        else:
            await exchange.refuse(401, "Unauthorized")


class _Connection:
    """A client's connection, a request at a time. Once it is silent, nothing that is sent arrives."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, proxy: FaultyProxy) -> None:
        self.proxy = proxy
        self.is_silent = False
        self._is_cut = False
        self.certificate: Mapping[str, Any] = writer.get_extra_info("peercert") or {}
        self._reader = reader
        self._writer = writer
        self._protocol = h11.Connection(h11.SERVER)
        task = asyncio.current_task()
        assert task
        self.task = task

    @property
    def is_answering(self) -> bool:
        """Whether the head of an answer has been sent, and not its end."""
        return self._protocol.our_state is h11.SEND_BODY

    async def next_request(self) -> Exchange | None:
        """Read a request; None once the client has closed the connection, or an answer could not keep it open."""
        if self._is_cut or self._protocol.our_state is h11.MUST_CLOSE:
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
        if self.is_silent:
            await self._wait_until_the_client_leaves()
        if self._is_cut:
            raise HangUpError
        self._writer.write(self._protocol.send(event) or b"")
        await self._writer.drain()

    def interrupt(self) -> None:
        """Break off the answer; one that has not begun is cut when it does.

        Cancelled while it connects to the API server, httpcore would leave half of a connection behind.
        """
        if self.is_silent:
            return
        if self.is_answering:
            self.task.cancel()
        else:
            self._is_cut = True

    async def _next_event(self) -> object:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            data = await self._reader.read(65536)
            if self.is_silent:
                await self._wait_until_the_client_leaves()
            self._protocol.receive_data(data)
        return event

    async def _wait_until_the_client_leaves(self) -> None:
        while await self._reader.read(65536):
            pass
        raise HangUpError


async def lines_of(response: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the lines of a body, each with its end."""
    rest = b""
    async for piece in response.aiter_raw():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if rest:
        yield rest

"""HTTP/1.1 over the world's connections, before a model of an API server that knows nothing of bytes."""

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final, TypeVarTuple
from urllib.parse import parse_qsl, unquote

import httptools
import msgspec

from tests.worlds.api_server.messages import Answer, Delayed, Request, Response, Watch
from tests.worlds.simulation.simulated_loop import SimulatedLoop
from tests.worlds.simulation.trace import Trace
from tests.worlds.simulation.transport import MemoryTransport

# An answer takes so long at least before and after something is done, and up to so much more.
_LEAST_SECONDS: Final = 200e-6
_MORE_SECONDS: Final = 10e-3

_Ts = TypeVarTuple("_Ts")


class Served(msgspec.Struct, frozen=True):
    """A request that was carried out just now: of which host, and when its last byte was written there."""

    who: str
    written_at: float
    request: Request
    answer: Response | Watch


class HttpFace(asyncio.Protocol):
    """One connection to the API server, for one request at a time. `handle` answers it, then `on_served` is called."""

    def __init__(
        self,
        handle: Callable[[Request], Answer],
        loop: SimulatedLoop,
        random: Random,
        trace: Trace,
        on_served: Callable[[Served], None] = lambda _: None,
    ) -> None:
        self._handle = handle
        self._on_served = on_served
        self._loop = loop
        self._random = random
        self._trace = trace
        self._transport: MemoryTransport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = b""
        self._watch: Watch | None = None
        self._who = ""

    # The network calls these:

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self._transport = transport
        self._who = transport.get_extra_info("peername")[0]

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    # The parser calls these:

    def on_message_begin(self) -> None:
        self._url, self._headers, self._body = b"", {}, b""

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        path, _, parameters = self._url.decode().partition("?")
        query = dict(parse_qsl(parameters, keep_blank_values=True)) if parameters else {}
        method = self._parser.get_method().decode()
        request = Request(method, unquote(path), query, self._headers, self._body)
        assert self._transport is not None
        self._loop.call_later(self._seconds(), self._do, request, self._transport.peer.written_at)

    # The steps of an answer:

    def _do(self, request: Request, written_at: float) -> None:
        """Do what is asked for, whether or not the caller is still there."""
        self._go_on(request, written_at, partial(self._handle, request))

    def _go_on(self, request: Request, written_at: float, act: Callable[[], Answer]) -> None:
        answer = act()
        if isinstance(answer, Delayed):
            self._loop.call_later(answer.seconds, self._go_on, request, written_at, answer.proceed)
            return
        status = 200 if isinstance(answer, Watch) else answer.status
        target = request.path + ("?watch" if isinstance(answer, Watch) else "")
        self._trace.write(self._loop.name, f"{status} {request.method} {target} of {self._who} {_short(request.body)}")
        self._on_served(Served(self._who, written_at, request, answer))
        if isinstance(answer, Watch):
            self._stream(answer)
        else:
            self._loop.call_later(self._seconds(), self._send, answer)

    def _send(self, response: Response) -> None:
        head = "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
        head = f"HTTP/1.1 {response.status} -\r\n{head}content-length: {len(response.body)}\r\n\r\n"
        self._write(head.encode() + response.body)

    def _stream(self, watch: Watch) -> None:
        if self._transport is None:
            watch.close()
            return
        self._watch = watch
        self._write(b"HTTP/1.1 200 -\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        if taken := watch.take():
            self._send_chunk(taken)
        watch.on_line = lambda line: _soon(self._loop, self._send_chunk, line)
        watch.on_end = lambda: _soon(self._loop, self._end_watch)
        if watch.is_ended:
            self._end_watch()

    def _send_chunk(self, data: bytes) -> None:
        self._write(b"%x\r\n%b\r\n" % (len(data), data))

    def _end_watch(self) -> None:
        self._watch = None
        self._write(b"0\r\n\r\n")

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _seconds(self) -> float:
        return _LEAST_SECONDS + _MORE_SECONDS * self._random.random() ** 4


def _soon(loop: SimulatedLoop, callback: Callable[[*_Ts], object], *arguments: *_Ts) -> None:
    """Have the server's process do something, which others may have caused, in its next step."""
    loop.call_soon(callback, *arguments)


def _short(body: bytes) -> str:
    return body[:300].decode(errors="replace")

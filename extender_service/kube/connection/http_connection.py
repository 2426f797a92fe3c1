"""One HTTP/1.1 connection to the API server, for one request at a time.

Ours because a scheduler is no faster than its writes: of a binding's 600 µs of processor time, httpx and aiohttp took
most. aiohttp still opens the connection (`connector.py`), and llhttp (httptools) reads the answers.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import httptools
from aiohttp.client_proto import ResponseHandler

from extender_service.kube.api_errors import SilentError, UnreachableError
from extender_service.kube.connection.connection_errors import CONNECTION_ERRORS, words_of
from extender_service.kube.connection.connector import Connector

# The head of one answer, with those of interim answers (1xx) and its trailers. The API server sends 1 KB.
_MOST_HEAD_BYTES: Final = 64 << 10
# The kernel holds back the rest of an answer while so much of it is unread.
_MOST_UNREAD_BYTES: Final = 1 << 20

_CLOSED: Final = "the connection was closed before the whole answer came"


class HttpConnection(asyncio.Protocol):
    """A connection that is opened with `open`. After `send`, read the answer: `head`, and then `body` or `chunks`.

    `status` and `headers` (names in lower case) are those of the last answer. If the connection fails or what comes is
    no HTTP, methods raise UnreachableError, and SilentError if no byte comes for too long; the texts name the server.
    """

    def __init__(self, server: str, connector: Connector) -> None:
        """`server` is what the texts of errors begin with."""
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self._server = server
        self._connector = connector
        self._transport: asyncio.Transport | None = None
        self._opened_by: ResponseHandler | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._closed: asyncio.Future[None] | None = None
        self._requests = 0
        self._is_stale = False
        # What has come of the answer:
        self._has_head = False
        self._is_interim = False
        self._is_whole = True
        self._is_last = False  # no request can be sent after this one
        self._flaw: str | None = None  # why the rest will not come; empty for silence
        self._head_bytes = 0
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self._is_paused = False
        # Who waits for it, and for how long:
        self._waiting: asyncio.Future[None] | None = None
        self._silence_seconds = 0.0
        self._heard_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent, as far as it is known."""
        transport = self._transport
        return transport is not None and self._is_whole and not self._is_last and not transport.is_closing()

    @property
    def may_be_stale(self) -> bool:
        """Whether the server closed the connection, which had carried another request before, without any answer.

        It has probably not read this request (RFC 9112, section 9.3.1).
        """
        return self._is_stale

    async def open(self, seconds: float) -> None:
        """Open the connection: the host's name, the proxy and TLS included."""
        try:
            async with asyncio.timeout(seconds):
                opened = await self._connector.open()
        except TimeoutError as error:
            raise UnreachableError(f"{self._server}: connection timeout, not open after {seconds:g} s") from error
        except CONNECTION_ERRORS as error:
            raise UnreachableError(f"{self._server}: {words_of(error)}") from error.with_traceback(None)
        transport = opened.transport
        if (
            transport is None or transport.is_closing() or opened.should_close
        ):  # it is lost already, or the server spoke first
            opened.close()
            raise UnreachableError(f"{self._server}: the server closed the connection, or does not speak HTTP")
        self._transport = transport
        self._opened_by = opened  # aiohttp-socks needs it to live as long
        self._parser = httptools.HttpResponseParser(self)
        self._closed = asyncio.get_running_loop().create_future()
        self._requests = 0
        self._is_whole, self._is_last = True, False
        transport.set_protocol(self)

    def send(self, request: bytes, silence_seconds: float) -> None:
        """Send a whole request, without waiting. Only while `is_open`."""
        assert self._transport is not None, "not open"
        self._requests += 1
        self._has_head = self._is_interim = self._is_whole = False
        self._is_stale = False
        self._flaw = None
        self._head_bytes = 0
        self.headers = {}
        self._silence_seconds = silence_seconds
        self._transport.write(request)
        self._expect_sound()

    async def head(self) -> int:
        """Wait for the head of the answer; return its status."""
        while not self._has_head and self._flaw is None:
            await self._wait()
        if not self._has_head:
            raise self._failure(self._server)
        return self.status

    async def body(self) -> bytes:
        """Wait for all of the body."""
        while not self._is_whole and self._flaw is None:
            await self._wait()
        if self._flaw is not None:
            raise self._failure(self._server)
        return self._take_unread()

    async def chunks(self, what: str) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes. Errors begin with `what`."""
        while True:
            if self._unread:
                yield self._take_unread()
            elif self._flaw is not None:
                raise self._failure(what)
            elif self._is_whole:
                return
            else:
                await self._wait()

    def close(self) -> None:
        """Close the connection, and fail the request that is under way."""
        self._is_last = True
        if not self._is_whole and self._flaw is None:
            self._flaw = _CLOSED
        if self._transport is not None:
            # Not its `close`: what is still to be sent of a request that was given up must not be sent.
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        if self._closed is not None:
            await self._closed

    def _failure(self, what: str) -> UnreachableError:
        if self._flaw:
            return UnreachableError(f"{what}: {self._flaw}")
        return SilentError(f"{what}: nothing came for {self._silence_seconds:g} s", self._silence_seconds)

    def _take_unread(self) -> bytes:
        taken = self._unread[0] if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        return taken

    async def _wait(self) -> None:
        """Wait until more of the answer has come, or none will."""
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._heard_at = asyncio.get_running_loop().time()
            self._transport.resume_reading()
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _fail(self, flaw: str) -> None:
        if not self._is_whole and self._flaw is None:
            self._flaw = flaw
        self.close()
        self._wake()

    # The event loop calls these:

    def data_received(self, data: bytes) -> None:
        """Read the next part of the answer."""
        if self._is_whole or self._parser is None:  # it is no answer to anything
            self.close()
            return
        had_head = self._has_head
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._is_whole:  # what comes after the answer makes no difference to it
                self._fail(f"what came is no HTTP: {error}")
            self._is_last = True
        if not had_head and not self._has_head:
            self._head_bytes += len(data)
        if self._head_bytes > _MOST_HEAD_BYTES and not self._is_whole:
            self._fail(f"the head of the answer is larger than {_MOST_HEAD_BYTES >> 10} KiB")
        if self._is_last:
            self.close()
        elif not self._is_whole:
            self._heard_at = asyncio.get_running_loop().time()
            if self._unread_bytes > _MOST_UNREAD_BYTES and (self._waiting is None or self._waiting.done()):
                self._pause()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the answer: one without a length ends with its connection."""
        self._transport = self._parser = self._opened_by = None
        if not self._is_whole and self._flaw is None:
            has_length = b"content-length" in self.headers or b"transfer-encoding" in self.headers
            self._is_whole = self._has_head and exc is None and not has_length
            self._is_stale = self._requests > 1 and not self._has_head and not self._head_bytes
        self._fail(_CLOSED if exc is None else words_of(exc))
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def _pause(self) -> None:
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    # The parser calls these:

    def on_message_begin(self) -> None:
        """Take note of a second answer, which nothing has asked for."""
        if self._is_whole:
            self._is_last = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header, or a trailer."""
        self._head_bytes += len(name) + len(value)
        if not self._is_whole and self._head_bytes <= _MOST_HEAD_BYTES:
            self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Begin the body, except of an interim answer (1xx)."""
        if self._is_whole:
            return
        assert self._parser is not None
        status: int = self._parser.get_status_code()
        self._is_interim = status < 200
        if self._is_interim:
            self.headers.clear()
        else:
            self._has_head = True
            self.status = status

    def on_body(self, data: bytes) -> None:
        """Keep a part of the body until it is read."""
        if not self._is_whole:
            self._unread.append(data)
            self._unread_bytes += len(data)

    def on_message_complete(self) -> None:
        """End the answer, unless it was an interim one."""
        if self._is_whole or self._is_interim:
            return
        assert self._parser is not None
        self._is_whole = True
        if not self._parser.should_keep_alive():
            self._is_last = True

    # The silence of the server:

    def _expect_sound(self) -> None:
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        due = self._heard_at + self._silence_seconds
        # An alarm that rings too early is set again, which is cheaper than one for each request.
        if self._alarm is not None and self._alarm_at <= due:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = due
        self._alarm = loop.call_at(due, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if self._is_whole:
            return
        loop = asyncio.get_running_loop()
        if self._is_paused:  # the silence is ours
            self._heard_at = loop.time()
        if loop.time() >= self._heard_at + self._silence_seconds:
            self._fail("")
        else:
            self._alarm_at = self._heard_at + self._silence_seconds
            self._alarm = loop.call_at(self._alarm_at, self._ring)

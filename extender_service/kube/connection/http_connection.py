"""One HTTP/1.1 connection to the API server, for one request at a time.

Ours because a scheduler is no faster than its writes: of a binding's 600 µs of processor time, httpx and aiohttp took
most. aiohttp still opens the connection (`connector.py`).
"""

import asyncio
import math
from collections.abc import AsyncGenerator
from typing import Final

from aiohttp.client_proto import ResponseHandler

from extender_service.kube.api_errors import LargeAnswerError, RefusedError, SilentError, UnreachableError
from extender_service.kube.connection.answer_reader import AnswerReader
from extender_service.kube.connection.connection_errors import CONNECTION_ERRORS, is_refused, words_of
from extender_service.kube.connection.connector import Connector

# The kernel holds back the rest of an answer while so much of it is unread.
_MOST_UNREAD_BYTES: Final = 1 << 20

_CLOSED: Final = "the connection was closed before the whole answer came"
_SILENT: Final = ""


class HttpConnection(asyncio.Protocol):
    """A connection that is opened with `open`. After `send`, read the answer: `head`, and then `body` or `chunks`.

    If the connection fails or what comes is no HTTP, methods raise UnreachableError, and SilentError if no byte comes
    for too long; the texts name the server.
    """

    def __init__(self, server: str, connector: Connector) -> None:
        """`server` is what the texts of errors begin with."""
        self._server = server
        self._connector = connector
        self._transport: asyncio.Transport | None = None
        self._opened_by: ResponseHandler | None = None
        self._closed: asyncio.Future[None] | None = None
        self._requests = 0
        self._is_stale = False
        self._is_paused = False
        self._answer = AnswerReader()
        self._flaw: str | None = None  # why the rest of the answer will not come
        # The task that waits for the answer, and for how long:
        self._waiting: asyncio.Future[None] | None = None
        self._silence_seconds = 0.0
        self._whole_seconds = 0.0
        self._sent_at = 0.0
        self._heard_at = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent, as far as it is known."""
        transport, answer = self._transport, self._answer
        return transport is not None and answer.is_whole and not answer.is_last and not transport.is_closing()

    @property
    def may_be_stale(self) -> bool:
        """Whether the server closed the connection, which had carried another request before, without any answer.

        It has probably not read this request (RFC 9112, section 9.3.1).
        """
        return self._is_stale

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The headers of the answer, with their names in lower case."""
        return self._answer.headers

    async def open(self, seconds: float) -> None:
        """Open the connection: the host's name, the proxy and TLS included."""
        try:
            async with asyncio.timeout(seconds):
                opened = await self._connector.open()
        except TimeoutError as error:
            raise UnreachableError(f"{self._server}: connection timeout, not open after {seconds:g} s") from error
        except CONNECTION_ERRORS as error:
            kind = RefusedError if is_refused(error) else UnreachableError
            raise kind(f"{self._server}: {words_of(error)}") from error.with_traceback(None)
        transport = opened.transport
        if (
            transport is None or transport.is_closing() or opened.should_close
        ):  # it is lost already, or the server spoke first
            opened.close()
            raise UnreachableError(f"{self._server}: the server closed the connection, or does not speak HTTP")
        self._transport = transport
        self._opened_by = opened  # aiohttp-socks needs it to live as long
        self._answer = AnswerReader()
        self._closed = asyncio.get_running_loop().create_future()
        self._requests = 0
        transport.set_protocol(self)

    def send(self, request: bytes, silence_seconds: float, whole_seconds: float = math.inf) -> None:
        """Send a whole request, without waiting. Only while `is_open`.

        Each byte of the answer may take `silence_seconds`, and all of them `whole_seconds`, which is not less.
        """
        assert self._transport is not None, "not open"
        self._requests += 1
        self._answer.expect()
        self._is_stale = False
        self._flaw = None
        self._silence_seconds, self._whole_seconds = silence_seconds, whole_seconds
        self._transport.write(request)
        self._expect_sound()

    async def head(self) -> int:
        """Wait for the head of the answer; return its status."""
        answer = self._answer
        while not answer.has_head and self._flaw is None:
            await self._wait()
        if not answer.has_head:
            raise self._failure(self._server)
        return answer.status

    async def body(self, most_bytes: int) -> bytes:
        """Wait for all of the body. Raises LargeAnswerError if it is larger than `most_bytes`."""
        answer = self._answer
        while not answer.is_whole and self._flaw is None and answer.unread_bytes <= most_bytes:
            await self._wait()
        if answer.unread_bytes > most_bytes:
            self.close()
            raise LargeAnswerError(f"{self._server}: the answer is larger than {most_bytes >> 20} MiB")
        if self._flaw is not None:
            raise self._failure(self._server)
        return answer.take()

    async def chunks(self, what: str) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes. Errors begin with `what`."""
        answer = self._answer
        while True:
            if answer.unread_bytes:
                yield answer.take()
            elif self._flaw is not None:
                raise self._failure(what)
            elif answer.is_whole:
                return
            else:
                await self._wait()

    def close(self) -> None:
        """Close the connection, and fail the request that is under way."""
        if not self._answer.is_whole and self._flaw is None:
            self._flaw = _CLOSED
        if self._transport is not None:
            # Not its `close`: what is still to be sent of a request that was given up must not be sent.
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        if self._closed is not None:
            await self._closed

    def _failure(self, what: str) -> UnreachableError:
        if self._flaw == _SILENT:
            return SilentError(f"{what}: nothing came for {self._silence_seconds:g} s", self._silence_seconds)
        return UnreachableError(f"{what}: {self._flaw}")

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
        if self._flaw is None:
            self._flaw = flaw
        self.close()
        self._wake()

    # The event loop calls these:

    def data_received(self, data: bytes) -> None:
        """Read the next part of the answer."""
        answer, transport = self._answer, self._transport
        is_awaited = not answer.is_whole and self._flaw is None
        if transport is None or not is_awaited:
            self.close()
            return
        flaw = answer.feed(data)
        if flaw is not None:
            self._fail(flaw)
            return
        if answer.is_whole:
            # A server that answers before it has read the request may never read the rest.
            if answer.is_last or transport.get_write_buffer_size():
                self.close()
        else:
            self._heard_at = asyncio.get_running_loop().time()
            if answer.unread_bytes > _MOST_UNREAD_BYTES and (self._waiting is None or self._waiting.done()):
                self._pause()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the answer: one without a length ends with its connection."""
        answer = self._answer
        self._transport = self._opened_by = None
        self._is_paused = False
        answer.close()
        if not answer.is_whole and self._flaw is None:
            self._is_stale = self._requests > 1 and not answer.has_begun
            if exc is None:
                answer.end()
            if not answer.is_whole:
                self._flaw = _CLOSED if exc is None else words_of(exc)
        self._wake()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)

    def _pause(self) -> None:
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    # The silence of the server:

    def _expect_sound(self) -> None:
        loop = asyncio.get_running_loop()
        self._sent_at = self._heard_at = loop.time()
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
        if self._answer.is_whole:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._is_paused:  # the silence is ours
            self._heard_at = now
        if now >= self._heard_at + self._silence_seconds:
            self._fail(_SILENT)
        elif now >= self._sent_at + self._whole_seconds:
            self._fail(f"the answer was not whole after {self._whole_seconds:g} s")
        else:
            self._alarm_at = min(self._heard_at + self._silence_seconds, self._sent_at + self._whole_seconds)
            self._alarm = loop.call_at(self._alarm_at, self._ring)

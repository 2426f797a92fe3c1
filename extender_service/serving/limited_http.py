"""HTTP within limits: a request must arrive in time, its head must be small, and no web page may have sent it."""

import json
import math
from collections.abc import Awaitable
from functools import partial
from typing import Any

from httptools import HttpParserError
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from extender_service.serving.browsers import BrowserGuard
from extender_service.serving.connection_limits import LimitedConnections
from extender_service.serving.refusals import RefusalReason
from extender_service.serving.scope import ARRIVED, HUNG_UP
from extender_service.serving.socket_state import HangUp
from extender_service.serving.upgrades import UpgradeIgnoringParser
from extender_service.serving.whole_answers import WholeAnswers

# Headers of a request; kube-scheduler sends six.
_MOST_HEADERS = 100
# Requests that may wait for the one before them on the same connection; kube-scheduler sends one at a time.
_MOST_PIPELINED = 16
# Seconds that a refused caller has to read the reason.
_LINGER_SECONDS = 2.0


class LimitedHTTP(WholeAnswers):
    """One connection, counted in `connections`; `guard` checks the headers of its requests."""

    parser: UpgradeIgnoringParser

    def __init__(self, connections: LimitedConnections, guard: BrowserGuard, **options: Any) -> None:
        super().__init__(**options)
        self.parser = UpgradeIgnoringParser(self)
        self._guard = guard
        self.due = math.inf
        self.unsent_since: float | None = None
        self._connections = connections
        self._limits = connections.limits
        self._is_refused = False
        self._has_asked = False
        # When data last arrived, in seconds of the clock of `connections`.
        self._came = 0.0
        # Of the request being read: when it began, whether its head is complete, its bytes outside of the body.
        self._began: float | None = None
        self._has_head = False
        self._head_bytes = 0
        self._has_body_in_chunk = False
        self._chunk_bytes = 0

    @property
    def is_busy(self) -> bool:
        """Whether a complete request waits for its answer."""
        return self._began is None and not self._is_answered

    @property
    def is_reading(self) -> bool:
        """Whether a request has come in part, and has not been refused already."""
        return self._began is not None and not self._is_refused

    @property
    def unsent_bytes(self) -> int:
        """Bytes of answers that the caller has not read yet."""
        return 0 if self.transport.is_closing() else self.transport.get_write_buffer_size()

    def hang_up(self) -> None:
        """Close the connection at once; if a request was half read, count that as a refusal, which is logged."""
        if self._began is not None and not self._is_refused:
            what = "request" if self._has_head else "head of a request"
            option = "--request-timeout" if self._has_head else "--header-timeout"
            self._connections.refusals.add("slow", f"a {what} did not come in time ({option})")
        self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        """Count a new connection, and start the time limit for its first request."""
        super().connection_made(transport)
        self.app = partial(_begin, self.flow, self.app)
        self._hang_up = HangUp(transport)
        self.due = self._connections.clock() + self._limits.idle_seconds
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._connections.remove(self)

    def pause_writing(self) -> None:
        """Note that the caller does not read its answer."""
        super().pause_writing()
        self._connections.pause(self)

    def resume_writing(self) -> None:
        """Note that the caller reads its answer again."""
        super().resume_writing()
        self._connections.resume(self)

    def data_received(self, data: bytes) -> None:
        """Parse a chunk, and count its bytes towards the limit for heads."""
        if self._is_refused:
            return
        was_coming = self._began
        self._came = self._connections.clock()
        self._chunk_bytes, self._has_body_in_chunk = len(data), False
        try:
            self.parser.feed_data(data)
        except HttpParserError:
            self._refuse_malformed()
        # A chunk in which one request ends and the next begins counts for both.
        is_in_head = self._began is not None and not self._has_body_in_chunk and was_coming in (None, self._began)
        if is_in_head and not self._is_refused:
            self._head_bytes += len(data)
            if self._head_bytes > self._limits.header_bytes:
                self._refuse_head()

    def on_message_begin(self) -> None:
        """Start the time limit for the head of a request."""
        super().on_message_begin()
        self._began = self._came
        self._has_head = False
        self._head_bytes = 0
        self.due = self._began + self._limits.header_seconds

    def on_headers_complete(self) -> None:
        """Check the head of a request, and refuse it or start the time limit for the body."""
        if self._is_refused:
            return
        assert self._began is not None
        self._has_head = True
        if self._head_is_too_large() or len(self.pipeline) >= _MOST_PIPELINED:
            self._refuse_head()
            return
        if self.parser.is_to_read_again:
            return
        web_page = self._guard.refuse(self.headers)
        if web_page is not None:
            self._refuse(b"403 Forbidden", web_page.header, web_page.problem)
            return
        self.scope[ARRIVED] = self._came  # type: ignore[literal-required]
        self.scope[HUNG_UP] = self._hang_up.has_come  # type: ignore[literal-required]
        self.due = self._began + self._limits.request_seconds
        super().on_headers_complete()
        # The oldest uvicorn that we allow does not heed a caller's `Connection: close`.
        if not self.parser.should_keep_alive():
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Append a piece of the body, without copying what is already there for each small piece."""
        if self._is_refused:
            return
        self._has_body_in_chunk = True
        # uvicorn appends the piece to the bytes that wait to be received. The first piece is not copied. From the
        # second on, a bytearray grows in place.
        waiting: bytes | bytearray = self.cycle.body
        if not waiting:
            self.cycle.body = b""  # type: ignore[assignment]
        elif isinstance(waiting, bytes):
            self.cycle.body = bytearray(waiting)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        if self._is_refused or self.parser.is_to_read_again:
            return
        super().on_message_complete()
        self._began = None
        if not self._has_asked:
            self._has_asked = True
            self._connections.has_asked(self)
        # A call that does not wait for its body may be answered already.
        self.due = self._came + self._limits.idle_seconds if self._is_answered else math.inf

    def on_response_complete(self) -> None:
        """Start the time limit for the next request, now that the answer is complete."""
        super().on_response_complete()
        # `due` is our limit. uvicorn's timer would keep a connection that is reset, and its headers, until it rings.
        self._unset_keepalive_if_required()
        if self._began is None and self._is_answered:
            self.due = self._connections.clock() + self._limits.idle_seconds

    @property
    def _is_answered(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _head_is_too_large(self) -> bool:
        if len(self.headers) > _MOST_HEADERS:
            return True
        if self._head_bytes + self._chunk_bytes <= self._limits.header_bytes:
            return False
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        return size > self._limits.header_bytes

    def _refuse_head(self) -> None:
        problem = "the head of the request is too large (--max-header-size)"
        self._refuse(b"431 Request Header Fields Too Large", "header", problem)

    def _refuse_malformed(self) -> None:
        """Answer as uvicorn does, which logs each such request."""
        if self._is_refused:
            return
        self._is_refused = True
        self._connections.refusals.add("malformed", "a request is not HTTP")
        self.send_400_response("Invalid HTTP request received.")

    def _refuse(self, status: bytes, reason: RefusalReason, problem: str) -> None:
        """Answer with the reason for the refusal, and read nothing more from the connection."""
        self._is_refused = True
        self._connections.refusals.add(reason, problem)
        self.due = self._connections.clock() + _LINGER_SECONDS
        if self._is_answered and not self.transport.is_closing():
            body = json.dumps({"Error": problem}).encode() + b"\n"
            self.transport.write(
                b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                % (status, len(body), body)
            )
        else:
            self.transport.abort()  # another answer is half sent


def _begin(flow: FlowControl, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
    """Begin a request, but not before its caller takes the last answer: one more would be counted nowhere."""
    return _begin_later(flow, app, scope, receive, send) if flow.write_paused else app(scope, receive, send)


async def _begin_later(flow: FlowControl, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    await flow.drain()
    await app(scope, receive, send)

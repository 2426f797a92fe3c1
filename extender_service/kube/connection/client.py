"""Requests to the API server: list, watch, get, create, patch and bind, with typed answers and errors."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from extender_service.kube.api_errors import (
    ApiError,
    InvalidAnswerError,
    KubeError,
    LargeAnswerError,
    SilentError,
    UnreachableError,
    error_from_response,
)
from extender_service.kube.connection.event_stream import EventStream
from extender_service.kube.connection.http_connection import HttpConnection
from extender_service.kube.connection.pool import ConnectionPool, Loan
from extender_service.kube.connection.rate_limit import TokenBucket
from extender_service.kube.connection.request_bytes import RequestBytes
from extender_service.kube.connection.sent_requests import UNANSWERED, SentRequests
from extender_service.kube.connection.turns import Turns
from extender_service.kube.credentials.identity import Identity
from extender_service.kube.credentials.lookup import Credentials
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.resources.api_resources import PODS, Resource, T

log = logging.getLogger(__name__)

# A TCP and TLS handshake that takes longer will not succeed.
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 60.0  # the API server's own limit
# For all of an answer, except a watch's: one of which a byte comes now and then must not hold its request for good.
_WHOLE_SECONDS = 5 * 60.0
# Of an answer that is no list. etcd takes objects of 1.5 MiB, and the API server writes `<` as `\u003c`: 9 MiB.
_MOST_BYTES: Final = 16 << 20
# Of a page of a list. While it is put together it is in memory twice, for each kind that is listed at the time.
_MOST_PAGE_BYTES: Final = 32 << 20
# Of a list by a server that knows no pages, and so ignores how many objects it is asked for.
_MOST_UNPAGED_BYTES: Final = 512 << 20
# Requests under way at once, except lists and watches, of which there are few. Each holds a connection, and so an open
# file. Of these, a fifth is for reads, so that reads and writes wait for their own kind only.
MOST_REQUESTS = 1250
# A request that the limit held back for so long is logged at level debug; one that it held back for longer is logged in
# any case, one each ten seconds (client-go's tryThrottleWithInfo).
_WAIT_SECONDS = 0.05
_LONG_WAIT_SECONDS = 1.0
_SECONDS_BETWEEN_LINES = 10.0
_MOST_RETRIES = 10  # as in client-go

# Decoding blocks the event loop, by some milliseconds for a page of so many bytes. The first page shows how big the
# objects are.
_PAGE_BYTES = 1 << 21
_FIRST_PAGE = 100

_WHOLE: Decoder[dict[str, Any]] = Decoder(dict[str, Any])
# What may be sent again if the server closed the connection instead of answering: twice is as good as once. A binding
# is a POST.
_REPEATABLE: Final = frozenset({"GET", "PUT", "DELETE"})
_PATCH_TYPE: Final = "application/strategic-merge-patch+json"

_Answer = TypeVar("_Answer")

RefuseWrites = Callable[[], str | None]
"""Returns why no write may be sent now; None if writes may be sent."""


class Page(NamedTuple, Generic[T]):
    """A part of a list; all parts show the state at the same resource version, from which a watch can go on."""

    items: tuple[T, ...]
    resource_version: str


class _Request(NamedTuple):
    """A request, which may be sent several times: by other identities, and over other connections."""

    method: str
    path: str
    query: Mapping[str, str] | None = None
    content: bytes = b""
    content_type: str = "application/json"
    answer_seconds: float | None = None  # for all until the body begins
    silence_seconds: float = _ANSWER_SECONDS  # for each wait for a byte
    whole_seconds: float = _WHOLE_SECONDS  # for all of the answer
    most_bytes: int = _MOST_BYTES
    at_once: bool = False  # behind no other request


class KubeClient:
    """A client of one API server, over pooled HTTP/1.1 connections; an asynchronous context manager.

    All methods raise ApiError if the API server refuses, UnreachableError if no whole answer arrives,
    InvalidAnswerError if the answer cannot be decoded, and CredentialsError if there are no usable credentials. If the
    API server rejects the identity (401), the client renews it and retries once. If it answers 429 or 5xx with
    Retry-After, the client retries after that many seconds (60 at most), up to ten times, except for lists and watches.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        most_requests: int = MOST_REQUESTS,
        limit: TokenBucket | None = None,
        refuse_writes: RefuseWrites | None = None,
        sent: SentRequests | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """At most `most_requests` are under way at once, at the rate of `limit`; lists and watches do not count.

        `sent`, if given, counts what this client sends, and other clients may share it.

        The client calls `refuse_writes` before it sends a write, before each retry, and again once the connection for
        it is open. If this returns a reason, the client raises it as a KubeError instead of sending.
        """
        self._credentials = credentials
        self._limit = limit
        self._refuse_writes = refuse_writes
        self._clock = clock
        self._sleep = sleep
        self._quiet_until = clock()
        self._connections = ConnectionPool(credentials, clock=clock)
        self._bytes: RequestBytes | None = None  # of the last identity
        self._sent = (sent or SentRequests()).to(urlsplit(credentials.shown_server).netloc)
        most_reads = max(1, most_requests // 5)
        self._reads = Turns(most_reads)
        self._writes = Turns(max(1, most_requests - most_reads))
        self._sent_writes = 0
        self._all_answered = asyncio.Event()
        self._is_finishing = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.close()

    def held_back_seconds(self) -> float:
        """Return how long the limit of the rate would hold back a request now."""
        return 0.0 if self._limit is None else self._limit.wait_seconds()

    async def finish_writes(self) -> None:
        """Send no write from now on, and return once all writes that were sent are answered.

        A write that is not sent yet, or is asked for later, waits until its task is cancelled: the process ends.
        """
        self._is_finishing = True
        while self._sent_writes:
            await self._all_answered.wait()

    async def list_pages(
        self,
        resource: Resource[T],
        *,
        field_selector: str = "",
        limit: int = 500,
        silence_seconds: float = _ANSWER_SECONDS,
    ) -> AsyncGenerator[Page[T], None]:
        """Yield all objects of a resource in pages of up to `limit`, as they are now; of fewer where objects are big.

        Raises SilentError if the API server sends nothing for `silence_seconds`, and an expired ApiError if the list
        took so long that the API server no longer has its pages; start again then.
        """
        # The query has no resource version: with one, the API server's watch cache would ignore the limit.
        query = {"fieldSelector": field_selector} if field_selector else {}
        size = min(limit, _FIRST_PAGE)
        while True:
            request = _Request(
                "GET",
                resource.path(),
                query | {"limit": str(size)},
                silence_seconds=silence_seconds,
                most_bytes=_MOST_PAGE_BYTES if size > 1 else _MOST_UNPAGED_BYTES,
                at_once=True,
            )
            try:
                body = await self._ask(request)
            except LargeAnswerError:
                if size == 1:
                    raise
                size = max(1, size // 4)
                continue
            page = _decode(resource.list_decoder, body)
            if not page.metadata.resource_version:
                # No API server answers `{}`. To read it as an empty list would empty the store.
                raise InvalidAnswerError("a list has no resource version")
            yield Page(page.items, page.metadata.resource_version)
            if not page.metadata.next_token:
                return
            query["continue"] = page.metadata.next_token
            if page.items:
                # Large objects may follow small ones.
                size = max(1, min(limit, 2 * size, _PAGE_BYTES * len(page.items) // len(body)))

    async def latest_version(self, resource: Resource[T], *, silence_seconds: float = _ANSWER_SECONDS) -> str:
        """Return etcd's latest resource version, for the price of reading one object of this resource."""
        pages = self.list_pages(resource, limit=1, silence_seconds=silence_seconds)
        async with aclosing(pages):
            return (await anext(pages)).resource_version

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        resource_version: str,
        *,
        field_selector: str = "",
        timeout_seconds: int = 300,
        answer_seconds: float = _ANSWER_SECONDS,
        idle_seconds: float = 330.0,
    ) -> AsyncIterator[EventStream[T]]:
        """Open a watch on the changes after `resource_version`, with bookmarks.

        The API server ends it after `timeout_seconds`. Raises SilentError if it does not begin within `answer_seconds`,
        or brings no byte for `idle_seconds`.
        """
        query = {
            "watch": "1",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        } | ({"fieldSelector": field_selector} if field_selector else {})
        request = _Request(
            "GET",
            resource.path(),
            query,
            answer_seconds=answer_seconds,
            silence_seconds=idle_seconds,
            whole_seconds=math.inf,
            at_once=True,
        )
        with await self._answer(request) as http:
            async with aclosing(http.chunks("the watch")) as chunks:
                yield EventStream(chunks, resource.frame_decoder, self._clock)

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Read one object, as it is now; the namespace of cluster-scoped objects is empty."""
        return _decode(resource.decoder, await self._request("GET", resource.path(namespace, name)))

    async def get_json(self, resource: Resource[T], namespace: str, name: str) -> bytes:
        """Read one object, as it is now, undecoded."""
        return await self._request("GET", resource.path(namespace, name))

    async def create(self, resource: Resource[T], namespace: str, manifest: Mapping[str, Any]) -> T:
        """Create an object from its manifest and return what the API server made of it."""
        return _decode(resource.decoder, await self.create_unread(resource, namespace, manifest))

    async def create_unread(self, resource: Resource[T], namespace: str, manifest: Mapping[str, Any]) -> bytes:
        """Create an object from its manifest and return the answer undecoded."""
        return await self._request("POST", resource.path(namespace), body=manifest)

    async def patch(
        self, resource: Resource[T], namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> T:
        """Apply a strategic merge patch to an object or its subresource and return the object as it then is."""
        answer = await self.patch_unread(resource, namespace, name, patch, subresource=subresource)
        return _decode(resource.decoder, answer)

    async def patch_unread(
        self, resource: Resource[T], namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> bytes:
        """Apply a strategic merge patch to an object or its subresource and return the answer undecoded."""
        path = resource.path(namespace, name, subresource)
        return await self._request("PATCH", path, body=patch, content_type=_PATCH_TYPE)

    async def exchange(self, method: str, path: str, manifest: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and return the answer whole: for objects that are written back with all their fields."""
        return _decode(_WHOLE, await self._request(method, path, body=manifest))

    async def delete(self, resource: Resource[T], namespace: str, name: str, uid: str) -> None:
        """Delete an object, if it has this UID; status 409 if it has another."""
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        await self._request("DELETE", resource.path(namespace, name), body=options)

    async def bind(self, pod_namespace: str, pod_name: str, pod_uid: str, node_name: str) -> None:
        """Bind a pod to a node, if it is still the pod with this UID (v1.Binding).

        Raises ApiError: status 409 if it is bound already or another pod has its name now, 404 if it is gone.
        """
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": pod_namespace, "name": pod_name, "uid": pod_uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        await self._request("POST", PODS.path(pod_namespace, pod_name, "binding"), body=binding)

    async def _request(
        self, method: str, path: str, *, body: Mapping[str, Any] | None = None, content_type: str = "application/json"
    ) -> bytes:
        content = b"" if body is None else msgspec.json.encode(body)
        request = _Request(method, path, None, content, content_type)
        try_once = self._read if method == "GET" else self._write
        for retries_left in range(_MOST_RETRIES, -1, -1):
            if self._limit is not None and (waited_seconds := await self._limit.take()) > _WAIT_SECONDS:
                self._log_throttling(waited_seconds, method, path)
            try:
                return await try_once(request)
            except ApiError as error:
                if not error.asks_to_retry or not retries_left:
                    raise
                seconds = error.retry_after_seconds or 0.0
                log.debug("%s %s: %s; next try in %g s", method, path, error, seconds)
            await self._sleep(seconds)  # which holds neither a turn nor a connection
        raise AssertionError("the last try returned or raised")

    async def _read(self, request: _Request) -> bytes:
        if not self._reads.take_free():
            await self._reads.wait()
        try:
            return await self._ask(request)
        finally:
            self._reads.give_back()

    async def _write(self, request: _Request) -> bytes:
        if not self._writes.take_free():
            await self._writes.wait()
        try:
            if self._is_finishing:
                await asyncio.Future()
            self._require_may_write()
            self._sent_writes += 1
            try:
                return await self._ask(request)
            finally:
                self._sent_writes -= 1
                if self._is_finishing and not self._sent_writes:
                    self._all_answered.set()
        finally:
            self._writes.give_back()

    def _require_may_write(self) -> None:
        if self._refuse_writes is not None and (why := self._refuse_writes()) is not None:
            raise KubeError(f"not sent: {why}")

    def _log_throttling(self, seconds: float, method: str, path: str) -> None:
        now, level = self._clock(), logging.DEBUG
        if seconds > _LONG_WAIT_SECONDS and now >= self._quiet_until:
            self._quiet_until = now + _SECONDS_BETWEEN_LINES
            level = logging.INFO
        # client-go's words, as users look for them.
        text = "Waited for %.3gs due to client-side throttling, not priority and fairness, request: %s:%s"
        log.log(level, text, seconds, method, self._credentials.shown_server + path)

    async def _ask(self, request: _Request) -> bytes:
        """Send a request and return the body of the answer; raises ApiError unless it is a success."""
        began = self._clock()
        try:
            with await self._answer(request) as http:
                return await http.body(request.most_bytes)
        finally:
            self._sent.took(request.method, self._clock() - began)

    async def _answer(self, request: _Request) -> Loan:
        """Send a request and return its connection, with the body unread; raises ApiError unless it is a success."""
        source = self._credentials.identity
        identity = source.current() or await source.get()
        try:
            return await self._answer_to(identity, request)
        except ApiError as error:
            if error.status_code != 401:
                raise
            renewed = await source.renew(identity)
            if renewed == identity:
                raise
        return await self._answer_to(renewed, request)

    async def _answer_to(self, identity: Identity, request: _Request) -> Loan:
        loan = await self._connections.lend(identity, at_once=request.at_once)
        http = loan.connection
        status = UNANSWERED
        try:
            if request.answer_seconds is None:
                status = await self._send(http, identity, request)
            else:
                status = await self._send_within(request.answer_seconds, http, identity, request)
            self._sent.answers[request.method, status] += 1
            if 200 <= status < 300:
                return loan
            retry_after = http.headers.get(b"retry-after", b"").decode("latin-1")
            body = await self._refusal(http, request)
            raise error_from_response(status, {"Retry-After": retry_after}, body)
        except BaseException as error:
            # Also if the caller gave up, as with the lease's requests: an API server that hangs would leave no trace.
            if status == UNANSWERED and isinstance(error, (UnreachableError, asyncio.CancelledError)):
                self._sent.answers[request.method, UNANSWERED] += 1
            loan.end(error)
            raise

    async def _send_within(self, seconds: float, http: HttpConnection, identity: Identity, request: _Request) -> int:
        try:
            async with asyncio.timeout(seconds):
                return await self._send(http, identity, request)
        except TimeoutError as error:
            raise SilentError(f"{self._credentials.shown_server}: nothing came for {seconds:g} s", seconds) from error

    async def _refusal(self, http: HttpConnection, request: _Request) -> bytes:
        """Return the body of an answer that is no success. A watch may take its time, but its refusal may not."""
        try:
            async with asyncio.timeout(request.answer_seconds):
                return await http.body(_MOST_BYTES)
        except TimeoutError as error:
            seconds = request.answer_seconds or 0.0
            server = self._credentials.shown_server
            raise SilentError(f"{server}: no whole answer came for {seconds:g} s", seconds) from error

    async def _send(self, http: HttpConnection, identity: Identity, request: _Request) -> int:
        """Send a request, and wait for the head of the answer; return its status."""
        if not http.is_open:
            await http.open(_CONNECT_SECONDS)
        self._begin(http, identity, request)
        try:
            return await http.head()
        except UnreachableError:
            if not http.may_be_stale or request.method not in _REPEATABLE:
                raise
        await http.open(_CONNECT_SECONDS)
        self._begin(http, identity, request)
        return await http.head()

    def _begin(self, http: HttpConnection, identity: Identity, request: _Request) -> None:
        if self._bytes is None or self._bytes.identity is not identity:
            self._bytes = RequestBytes(self._credentials, identity)
        if request.method == "GET":
            encoded = self._bytes.read(request.path, request.query)
        else:
            encoded = self._bytes.write(request.method, request.path, request.content, request.content_type)
            self._require_may_write()  # after all waiting
        http.send(encoded, request.silence_seconds, request.whole_seconds)


def _decode(decoder: Decoder[_Answer], body: bytes) -> _Answer:
    try:
        return decoder.decode(body)
    except DecodeError as error:
        raise InvalidAnswerError(f"an answer of the API server cannot be decoded: {error}") from error

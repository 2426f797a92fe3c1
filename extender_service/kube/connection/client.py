"""Requests to the API server: list, watch, get, create, patch and bind, with typed answers and errors."""

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import httpx
import msgspec

from extender_service.kube.api_errors import (
    ApiError,
    InvalidAnswerError,
    KubeError,
    SilentError,
    UnreachableError,
    error_from_response,
)
from extender_service.kube.api_resources import PODS, Resource, T
from extender_service.kube.connection.connector import RefuseWrites
from extender_service.kube.connection.event_stream import EventStream
from extender_service.kube.connection.pool import ConnectionPool
from extender_service.kube.connection.rate_limit import TokenBucket
from extender_service.kube.credentials.lookup import Credentials
from extender_service.kube.parsing.decoder import DecodeError, Decoder

logger = logging.getLogger(__name__)

# A TCP and TLS handshake that takes longer will not succeed.
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 60.0  # the API server's own limit
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
_NO_STREAM = httpx.ByteStream(b"")

_Answer = TypeVar("_Answer")


class Page(NamedTuple, Generic[T]):
    """A part of a list; all parts show the state at the same resource version, from which a watch can go on."""

    items: tuple[T, ...]
    resource_version: str


class KubeClient:
    """A client of one API server, over pooled HTTP/1.1 connections; an asynchronous context manager.

    All methods raise ApiError if the API server refuses, UnreachableError if no whole answer arrives,
    InvalidAnswerError if the answer cannot be decoded, and CredentialsError if there are no usable credentials. If the
    API server rejects the identity (401), the client renews it and retries once. If it answers 429 or 5xx with
    Retry-After, the client retries after that many seconds, up to ten times, except for lists and watches.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        most_requests: int = MOST_REQUESTS,
        limit: TokenBucket | None = None,
        refuse_writes: RefuseWrites | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """At most `most_requests` are under way at once, at the rate of `limit`; lists and watches do not count.

        The client calls `refuse_writes` before it sends a write, before each retry, and again once the connection for
        it is open. If this returns a reason, the client raises it as a KubeError instead of sending.
        """
        self._credentials = credentials
        self._limit = limit
        self._refuse_writes = refuse_writes
        self._clock = clock
        self._sleep = sleep
        self._quiet_until = clock()
        self._connections = ConnectionPool(credentials, refuse_writes=refuse_writes)
        most_reads = max(1, most_requests // 5)
        self._reads = asyncio.Semaphore(most_reads)
        self._writes = asyncio.Semaphore(max(1, most_requests - most_reads))
        self._sent_writes = 0
        self._all_answered = asyncio.Event()
        self._is_finishing = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.close()

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
        query = {"limit": str(min(limit, _FIRST_PAGE))} | ({"fieldSelector": field_selector} if field_selector else {})
        while True:
            answer = self._answer("GET", resource.path(), query=query, silence_seconds=silence_seconds, at_once=True)
            async with answer as response:
                body = await _read(response)
            page = _decode(resource.list_decoder, body)
            if not page.metadata.resource_version:
                # No API server answers `{}`. To read it as an empty list would empty the store.
                raise InvalidAnswerError("a list has no resource version")
            yield Page(page.items, page.metadata.resource_version)
            if not page.metadata.next_token:
                return
            query["continue"] = page.metadata.next_token
            if page.items:
                query["limit"] = str(max(1, min(limit, _PAGE_BYTES * len(page.items) // len(body))))

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
        async with self._answer(
            "GET",
            resource.path(),
            query=query,
            answer_seconds=answer_seconds,
            silence_seconds=idle_seconds,
            at_once=True,
        ) as response:
            yield EventStream(_chunks(response), resource.frame_decoder, self._clock)

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Read one object, as it is now; the namespace of cluster-scoped objects is empty."""
        return _decode(resource.decoder, await self._request("GET", resource.path(namespace, name)))

    async def get_json(self, resource: Resource[T], namespace: str, name: str) -> bytes:
        """Read one object, as it is now, undecoded."""
        return await self._request("GET", resource.path(namespace, name))

    async def create(self, resource: Resource[T], namespace: str, manifest: Mapping[str, Any]) -> T:
        """Create an object from its manifest and return what the API server made of it."""
        answer = await self._request("POST", resource.path(namespace), body=manifest)
        return _decode(resource.decoder, answer)

    async def patch(
        self, resource: Resource[T], namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> T:
        """Apply a strategic merge patch to an object or its subresource and return the object as it then is."""
        answer = await self._request(
            "PATCH",
            resource.path(namespace, name, subresource),
            body=patch,
            content_type="application/strategic-merge-patch+json",
        )
        return _decode(resource.decoder, answer)

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
        content = None if body is None else msgspec.json.encode(body)
        for retries_left in range(_MOST_RETRIES, -1, -1):
            try:
                return await self._try(method, path, content, content_type)
            except ApiError as error:
                if not error.asks_to_retry or not retries_left:
                    raise
                seconds = error.retry_after_seconds or 0.0
                logger.debug("%s %s: %s; next try in %g s", method, path, error, seconds)
            await self._sleep(seconds)  # which holds neither a turn nor a connection
        raise AssertionError("the last try returned or raised")

    async def _try(self, method: str, path: str, content: bytes | None, content_type: str) -> bytes:
        is_read = method == "GET"
        if self._limit is not None and (waited_seconds := await self._limit.take()) > _WAIT_SECONDS:
            self._log_throttling(waited_seconds, method, path)
        if is_read:
            async with self._reads:
                return await self._ask(method, path, content, content_type)
        async with self._writes:
            if self._is_finishing:
                await asyncio.Future()
            if self._refuse_writes is not None and (why := self._refuse_writes()) is not None:
                raise KubeError(f"not sent: {why}")
            self._sent_writes += 1
            self._all_answered.clear()
            try:
                return await self._ask(method, path, content, content_type)
            finally:
                self._sent_writes -= 1
                if not self._sent_writes:
                    self._all_answered.set()

    async def _ask(self, method: str, path: str, content: bytes | None, content_type: str) -> bytes:
        async with self._answer(method, path, content=content, content_type=content_type) as response:
            return await _read(response)

    def _log_throttling(self, seconds: float, method: str, path: str) -> None:
        now, level = self._clock(), logging.DEBUG
        if seconds > _LONG_WAIT_SECONDS and now >= self._quiet_until:
            self._quiet_until = now + _SECONDS_BETWEEN_LINES
            level = logging.INFO
        # client-go's words, as users look for them.
        text = "Waited for %.3gs due to client-side throttling, not priority and fairness, request: %s:%s"
        logger.log(level, text, seconds, method, self._credentials.server + path)

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        answer_seconds: float | None = None,
        silence_seconds: float = _ANSWER_SECONDS,
        at_once: bool = False,
    ) -> AsyncIterator[httpx.Response]:
        """Send a request and yield the response with its body unread; raises ApiError unless it is a success.

        `answer_seconds` is for all until the body begins, `silence_seconds` for each wait for a byte. Lists and watches
        are sent `at_once`, behind no other request.
        """
        identity = await self._credentials.identity.get()
        for is_retry in (False, True):
            async with self._connections.lend(identity, at_once=at_once) as http:
                headers = {"Authorization": identity.authorization} if identity.authorization else {}
                if content is not None:
                    headers["Content-Type"] = content_type
                # As in Go, names of users need not be ASCII.
                encoded = httpx.Headers([*headers.items(), *self._credentials.headers], encoding="utf-8")
                request = http.build_request(
                    method,
                    self._credentials.server + path,
                    params=query,
                    headers=encoded,
                    content=content,
                    timeout=httpx.Timeout(silence_seconds, connect=_CONNECT_SECONDS),
                )
                try:
                    async with asyncio.timeout(answer_seconds):
                        response = await http.send(request, stream=True)
                except TimeoutError as error:
                    seconds = answer_seconds or 0.0
                    raise SilentError(f"{self._credentials.server}: nothing came for {seconds:g} s", seconds) from error
                except httpx.HTTPError as error:
                    raise _failure(self._credentials.server, request, error) from error
                try:
                    if response.is_success:
                        yield response
                        return
                    refusal = error_from_response(response.status_code, response.headers, await _read(response))
                finally:
                    await response.aclose()
                    # The stream refers to the response, too: both would wait for the garbage collector, and hold it up.
                    response.stream = _NO_STREAM
            try:
                if refusal.status_code != 401 or is_retry:
                    raise refusal
                rejected, identity = identity, await self._credentials.identity.renew(identity)
                if identity == rejected:
                    raise refusal
            finally:
                del refusal  # its traceback refers to this frame: both would wait for the garbage collector, too
        raise AssertionError("the retry returned or raised")


async def _read(response: httpx.Response) -> bytes:
    try:
        # Not `aread`: that keeps the body with the response, until the garbage collector finds it.
        return b"".join([chunk async for chunk in response.aiter_bytes()])
    except httpx.HTTPError as error:
        raise _failure(str(response.url.copy_with(path=None, query=None)), response.request, error) from error


async def _chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise _failure("the watch", response.request, error) from error


def _failure(what: str, request: httpx.Request, error: Exception) -> UnreachableError:
    """Return the error with the system's own words, such as "Connection refused", which lie beneath the library's."""
    if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
        seconds = request.extensions["timeout"]["read"]
        return SilentError(f"{what}: nothing came for {seconds:g} s", seconds)
    text = str(error) or type(error).__name__
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, OSError) and str(cause):
            text = _system_words(cause)
        cause = cause.__cause__ or cause.__context__
    return UnreachableError(f"{what}: {text}")


def _system_words(error: OSError) -> str:
    if not error.errno or isinstance(error, ssl.SSLError | socket.gaierror):  # their numbers are not the system's
        return str(error)
    # asyncio has other words, "Connect call failed".
    return f"[Errno {error.errno}] {os.strerror(error.errno)}"


def _decode(decoder: Decoder[_Answer], body: bytes) -> _Answer:
    try:
        return decoder.decode(body)
    except DecodeError as error:
        raise InvalidAnswerError(f"an answer of the API server cannot be decoded: {error}") from error

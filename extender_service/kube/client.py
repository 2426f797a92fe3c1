"""Requests to the API server: list, watch, get, create, patch and bind, with typed answers and errors."""

import asyncio
import socket
import ssl
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import anyio.lowlevel
import httpcore  # noqa: F401 - httpx would import it at its first request, while all who call this service wait
import httpx
import msgspec

from extender_service.kube.api_errors import (
    InvalidAnswerError,
    SilentWatchError,
    UnreachableError,
    error_from_response,
)
from extender_service.kube.credentials import Credentials
from extender_service.kube.decoding import DecodeError, Decoder
from extender_service.kube.identity import Identity
from extender_service.kube.resources import PODS, Resource, T
from extender_service.kube.watch import EventStream

_REQUEST_LIMITS = httpx.Timeout(60.0, connect=10.0)  # the API server's own limit is a minute
# Requests under way at once, but for watches. For each, httpcore looks at all connections and all who wait for one:
# with 64 bindings at once that took ten times the processor time of the same bindings eight at a time.
_MOST_AT_ONCE = 8
# Open watches count among the connections that are kept: with fewer, most bindings began with a TLS handshake.
_POOL = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=60.0)

# A peer that is gone without a word is noticed after a minute, by any connection.
_SOCKET_OPTIONS = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
if sys.platform == "linux":
    _SOCKET_OPTIONS += [
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    ]


# To decode a page holds the event loop: some milliseconds for so many bytes. How big the objects are shows the first.
_PAGE_BYTES = 1 << 21
_FIRST_PAGE = 100

_Answer = TypeVar("_Answer")


class Page(NamedTuple, Generic[T]):
    """A part of a list; all parts show the state at the same resource version, from which a watch can go on."""

    items: tuple[T, ...]
    resource_version: str


class KubeClient:
    """A client of one API server, over pooled HTTP/1.1 connections; an asynchronous context manager.

    All methods raise ApiError where the API server refuses, UnreachableError where no whole answer arrives,
    InvalidAnswerError where it makes no sense, and CredentialsError where we cannot prove who we are. A rejected
    identity (401) is renewed and tried once more.
    """

    def __init__(self, credentials: Credentials, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._credentials = credentials
        self._clock = clock
        self._http: httpx.AsyncClient | None = None
        self._shown = Identity()
        self._turns = asyncio.Semaphore(_MOST_AT_ONCE)

    async def __aenter__(self) -> Self:
        # Here anyio loads the greater part of itself, for which all would wait at the first request, too.
        await anyio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http:
            await self._http.aclose()

    async def list_pages(
        self, resource: Resource[T], *, field_selector: str = "", limit: int = 500
    ) -> AsyncIterator[Page[T]]:
        """Yield all objects of a resource in pages of up to `limit`, as they are now; of fewer where objects are big.

        ApiError.expired: the list took so long that its pages are no longer known; start again.
        """
        # No resource version is asked for: the API server's watch cache would ignore the limit.
        query = {"limit": str(min(limit, _FIRST_PAGE))} | ({"fieldSelector": field_selector} if field_selector else {})
        while True:
            body = await self._request("GET", resource.path(), query=query)
            page = _decode(resource.list_decoder, body)
            yield Page(page.items, page.metadata.resource_version)
            if not page.metadata.next_token:
                return
            query["continue"] = page.metadata.next_token
            if page.items:
                query["limit"] = str(max(1, min(limit, _PAGE_BYTES * len(page.items) // len(body))))

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        resource_version: str,
        *,
        field_selector: str = "",
        timeout_seconds: int = 300,
        idle_seconds: float = 150.0,
    ) -> AsyncIterator[EventStream[T]]:
        """Open a watch on the changes after `resource_version`, with bookmarks.

        The server ends it after `timeout_seconds`; SilentWatchError ends it after `idle_seconds` without a byte.
        """
        query = {
            "watch": "1",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        } | ({"fieldSelector": field_selector} if field_selector else {})
        limits = httpx.Timeout(idle_seconds, connect=10.0)
        response = await self._send("GET", resource.path(), query=query, limits=limits)
        try:
            yield EventStream(_chunks(response, idle_seconds), resource.frame_decoder, self._clock)
        finally:
            await response.aclose()

    async def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Read one object, as it is now; the namespace of cluster-scoped objects is empty."""
        return _decode(resource.decoder, await self._request("GET", resource.path(namespace, name)))

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

    async def bind(self, pod_namespace: str, pod_name: str, pod_uid: str, node_name: str) -> None:
        """Bind a pod to a node, if it is still the pod with this UID (v1.Binding).

        ApiError with status 409: it is bound already, or another pod has its name now; 404: it is gone.
        """
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": pod_namespace, "name": pod_name, "uid": pod_uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node_name},
        }
        await self._request("POST", PODS.path(pod_namespace, pod_name, "binding"), body=binding)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        content = None if body is None else msgspec.json.encode(body)
        async with self._turns:
            response = await self._send(method, path, query=query, content=content, content_type=content_type)
            return await _read(response)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        limits: httpx.Timeout = _REQUEST_LIMITS,
    ) -> httpx.Response:
        """Send a request and return the response, its body still unread; raises ApiError unless it is a success."""
        identity = await self._credentials.identity.get()
        for is_retry in (False, True):
            http = await self._connections(identity)
            headers = {"Authorization": identity.authorization} if identity.authorization else {}
            if content is not None:
                headers["Content-Type"] = content_type
            request = http.build_request(
                method,
                self._credentials.server + path,
                params=query,
                headers=[*headers.items(), *self._credentials.headers],
                content=content,
                timeout=limits,
            )
            try:
                response = await http.send(request, stream=True)
            except httpx.HTTPError as error:
                raise _unreachable(self._credentials.server, error) from error
            if response.is_success:
                return response
            refusal = error_from_response(response.status_code, response.headers, await _read(response))
            if refusal.status_code != 401 or is_retry:
                raise refusal
            rejected, identity = identity, await self._credentials.identity.renew(identity)
            if identity == rejected:
                raise refusal
        raise AssertionError("the retry returned or raised")

    async def _connections(self, identity: Identity) -> httpx.AsyncClient:
        """Return connections that show this identity's certificate.

        Those with another certificate are closed, as client-go does; a watch among them goes on with a new one.
        """
        shown = (self._shown.certificate_pem, self._shown.key_pem)
        if self._http is None or shown != (identity.certificate_pem, identity.key_pem):
            new = httpx.AsyncClient(
                transport=httpx.AsyncHTTPTransport(
                    verify=self._tls(identity),
                    proxy=self._credentials.proxy or None,
                    limits=_POOL,
                    socket_options=_SOCKET_OPTIONS,
                    trust_env=False,
                ),
                headers={
                    "Accept": "application/json",
                    # To unpack a page would hold the event loop for longer than to decode it.
                    "Accept-Encoding": "identity",
                    "User-Agent": f"extender-service/{version('extender-service')}",
                },
                trust_env=False,
            )
            old, self._http, self._shown = self._http, new, identity
            if old:
                await old.aclose()
        return self._http

    def _tls(self, identity: Identity) -> ssl.SSLContext | bool:
        # To load the system's certificates holds the event loop for longer than all else; without TLS it is in vain.
        is_plain = all(url.startswith("http:") for url in (self._credentials.server, self._credentials.proxy) if url)
        return False if is_plain else self._credentials.ssl_context(identity)


async def _read(response: httpx.Response) -> bytes:
    try:
        # Not `aread`: that keeps the body with the response, until the garbage collector finds it.
        return b"".join([chunk async for chunk in response.aiter_bytes()])
    except httpx.HTTPError as error:
        raise _unreachable(str(response.url.copy_with(path=None, query=None)), error) from error
    finally:
        await response.aclose()


async def _chunks(response: httpx.Response, idle_seconds: float) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except httpx.ReadTimeout as error:
        raise SilentWatchError(f"nothing came for {idle_seconds:g} s") from error
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise _unreachable("the watch", error) from error


def _unreachable(what: str, error: Exception) -> UnreachableError:
    """Return the error with the system's own words, such as "Connection refused", which lie beneath the library's."""
    text = str(error) or type(error).__name__
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, OSError) and str(cause):
            text = str(cause)
        cause = cause.__cause__ or cause.__context__
    return UnreachableError(f"{what}: {text}")


def _decode(decoder: Decoder[_Answer], body: bytes) -> _Answer:
    try:
        return decoder.decode(body)
    except DecodeError as error:
        raise InvalidAnswerError(f"an answer of the API server cannot be decoded: {error}") from error

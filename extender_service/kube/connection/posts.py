"""POST requests with JSON to a server that is no API server: an extender."""

import asyncio
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

import httpx

from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.connector import Connector
from extender_service.kube.credentials.client_tls import ServerTrust
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.identity import Identity
from extender_service.kube.credentials.lookup import Credentials

# Five thousand nodes of 20 KB are 100 MB.
_MOST_BYTES: Final = 512 << 20


class PostError(KubeError):
    """No answer, or one with another status than 200. The server may have done what it was asked for."""


class Posts:
    """Sends requests to one server; an asynchronous context manager."""

    def __init__(self, credentials: Credentials, timeout_seconds: float | None) -> None:
        """`timeout_seconds` is for a whole request, from the connection to the end of the answer; None for no limit."""
        self._credentials = credentials
        self._timeout_seconds = timeout_seconds
        self._connector = Connector(credentials)
        self._shown: tuple[Identity, ServerTrust] | None = None
        self._client: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        """Raises CredentialsError."""
        await self._show()
        self._client = self._connector.client()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def post(self, verb: str, body: bytes, *, is_repeatable: bool) -> bytes:
        """Send JSON to the server's path of a verb, and return the answer. Raises PostError.

        The server may close a connection just when it is used again: then what `is_repeatable` is sent once more.
        """
        url = f"{self._credentials.shown_server}/{verb}"
        try:
            await self._show()
            async with asyncio.timeout(self._timeout_seconds):
                try:
                    return await self._send(verb, url, body)
                except httpx.ReadError:
                    if not is_repeatable:
                        raise
                return await self._send(verb, url, body)
        except TimeoutError as error:
            seconds = self._timeout_seconds
            limit = "" if seconds is None else f" within {seconds:g} s"
            raise PostError(f'Post "{url}": no whole answer{limit}') from error
        except (httpx.TransportError, CredentialsError) as error:
            raise PostError(f'Post "{url}": {error}') from error

    async def _show(self) -> None:
        """Have new connections show the client certificate as it is now. Raises CredentialsError."""
        identity = self._credentials.identity.current() or await self._credentials.identity.get()
        shown = identity, self._credentials.trust.current()
        if shown != self._shown:
            self._connector.show(*shown)
            self._shown = shown

    async def _send(self, verb: str, shown_url: str, body: bytes) -> bytes:
        assert self._client is not None, "used outside its context"
        url = f"{self._credentials.server}/{verb}"
        headers = {"Content-Type": "application/json"}
        async with self._client.stream("POST", url, content=body, headers=headers, timeout=None) as response:
            if response.status_code != httpx.codes.OK:
                raise PostError(f"failed {verb} with extender at URL {shown_url}, code {response.status_code}")
            answer = bytearray()
            async for chunk in response.aiter_bytes():
                answer += chunk
                if len(answer) > _MOST_BYTES:
                    raise PostError(f'Post "{shown_url}": the answer is larger than {_MOST_BYTES >> 20} MiB')
            return bytes(answer)


def is_url(text: str) -> bool:
    """Return whether requests can be sent to a URL."""
    try:
        parts = urlsplit(text)
        httpx.URL(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, httpx.InvalidURL):
        return False

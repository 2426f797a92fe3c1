"""How httpx's requests get to an extender: over aiohttp's connections, for a third of httpcore's processor time.

Written here because httpx-aiohttp, the library for that, sends two headers of one name (Impersonate-Group) as one, lets
errors pass that are not httpx's, and gives out a list in pieces of 16 KiB.
"""

import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import aiohttp
import aiohttp_socks
import httpx
from multidict import CIMultiDict
from yarl import URL

from extender_service.kube.connection.connection_errors import own_words

Tls = ssl.SSLContext | Literal[True]
"""A context, or aiohttp's own where there is no TLS."""

# What aiohttp raises and what that is to httpx; the first line that fits counts.
_ERRORS: tuple[tuple[tuple[type[Exception], ...], type[httpx.TransportError]], ...] = (
    ((aiohttp.SocketTimeoutError,), httpx.ReadTimeout),
    ((TimeoutError, aiohttp_socks.ProxyTimeoutError), httpx.ConnectTimeout),
    ((aiohttp.ClientHttpProxyError, aiohttp_socks.ProxyError), httpx.ProxyError),
    ((aiohttp.ClientConnectorError, aiohttp_socks.ProxyConnectionError), httpx.ConnectError),
    ((aiohttp.ClientResponseError,), httpx.RemoteProtocolError),
    ((aiohttp.ClientError, OSError, RuntimeError), httpx.ReadError),  # RuntimeError: we have closed the connection
    ((ValueError,), httpx.LocalProtocolError),  # a header that cannot be sent
)
_RAISED = tuple(kind for kinds, _ in _ERRORS for kind in kinds)


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends requests over a session's connections; raises httpx's TransportErrors. Closing it closes the session.

    Of httpx's timeouts, `connect` is for all that it takes until the request can be sent (names, proxies, TLS) and
    `read` for each read. A GET over a kept connection that the server has closed meanwhile is sent once more by
    aiohttp, a POST or PATCH never is.
    """

    def __init__(self, session: aiohttp.ClientSession, tls: Callable[[], Tls]) -> None:
        """`tls` returns what new connections begin with; one that is kept is used again while it returns the same."""
        self._session = session
        self._tls = tls

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; its body is read already, the response's is not."""
        timeout = request.extensions["timeout"]
        with _errors_of_httpx():
            answer = await self._session.request(
                request.method,
                # httpx has made an Authorization header of the URL's user by now.
                URL(str(request.url), encoded=True).with_user(None),
                headers=CIMultiDict(request.headers.multi_items()),
                data=request.content or None,
                allow_redirects=False,
                ssl=self._tls(),
                timeout=aiohttp.ClientTimeout(connect=timeout["connect"], sock_read=timeout["read"]),
            )
        return httpx.Response(answer.status, headers=answer.raw_headers, stream=_Body(answer))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._session.close()


class _Body(httpx.AsyncByteStream):
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx():
            async for chunk in self._answer.content.iter_any():
                yield chunk

    async def aclose(self) -> None:
        # A connection on which a part of the body is still to come is closed, any other is kept.
        self._answer.release()


@contextmanager
def _errors_of_httpx() -> Iterator[None]:
    try:
        yield
    except _RAISED as error:
        kind = next(kind for raised, kind in _ERRORS if isinstance(error, raised))
        # The stream keeps the error, whose traceback keeps the stream, until the garbage collector finds them.
        raise kind(own_words(error)) from error.with_traceback(None)

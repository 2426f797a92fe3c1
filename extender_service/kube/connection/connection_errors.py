"""The words for a connection that fails: the system's own where there are some, such as "Connection refused"."""

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Final

import aiohttp
import aiohttp_socks

CONNECTION_ERRORS: Final = (
    aiohttp.ClientError,
    aiohttp_socks.ProxyError,
    aiohttp_socks.ProxyConnectionError,
    aiohttp_socks.ProxyTimeoutError,
    OSError,
    ValueError,  # a name or a header that cannot be sent
)
"""What opening a connection raises."""


def words_of(error: BaseException) -> str:
    """Return what to report of an error. The system's words lie beneath the libraries' own."""
    text = own_words(error) or type(error).__name__
    for cause in _causes(error):
        if isinstance(cause, ConnectionResetError) and not str(cause):  # asyncio and uvloop say no more
            text = "the server closed the connection during the TLS handshake"
        elif isinstance(cause, OSError) and str(cause):
            text = _system_words(cause)
    return text


def is_distrust(error: BaseException) -> bool:
    """Return whether a server's certificate could not be verified."""
    return any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error))


def is_refused(error: BaseException) -> bool:
    """Return whether nothing listens at the server's address."""
    return any(isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED for cause in _causes(error))


def own_words(error: BaseException) -> str:
    """Return the words of aiohttp's error itself, in one line."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy says no: {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError):  # what came is no HTTP
        return " ".join(error.message.split())
    if isinstance(error, aiohttp.ClientConnectorError) and not isinstance(error, aiohttp.ClientSSLError):
        # aiohttp's own text has the TLS context, with its address in memory: no two failures would be equal.
        return f"Cannot connect to host {error.host}:{error.port} [{error.strerror}]"
    return str(error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what lies beneath it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _system_words(error: OSError) -> str:
    if not error.errno or isinstance(error, ssl.SSLError | socket.gaierror):  # their numbers are not the system's
        return str(error)
    # asyncio has other words, "Connect call failed".
    return f"[Errno {error.errno}] {os.strerror(error.errno)}"

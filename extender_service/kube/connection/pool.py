"""HTTP/1.1 connections to one API server, pooled, and given up together where they cannot be trusted any more.

That is so when another client certificate is to be shown, and when one connection has fallen silent: whatever cut it
off without a word (a firewall that forgot it, a host that is gone) has cut off the idle ones beside it as well, and
each of them would cost a request its whole patience.
"""

import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import version
from typing import Literal
from urllib.parse import unquote, urlsplit

import aiohttp
import aiohttp_socks
import httpx

from extender_service.kube.api_errors import SilentError
from extender_service.kube.connection.transport import AiohttpTransport
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.identity import Identity
from extender_service.kube.credentials.lookup import Credentials

# How long a connection is kept that nothing goes over.
_IDLE_SECONDS = 60.0

# As much as may wait to be read comes in one piece: with less, a page of a list takes a fifth more processor time.
_READ_BYTES = 1 << 20

# A peer that is gone without a word is noticed after a minute, by any connection.
_SOCKET_OPTIONS = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
if sys.platform == "linux":
    _SOCKET_OPTIONS += [
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    ]


class _Pool:
    """Connections that show one certificate."""

    def __init__(self, http: httpx.AsyncClient, identity: Identity) -> None:
        self.http = http
        self.users = 0
        self._certificate = (identity.certificate_pem, identity.key_pem)

    def shows(self, identity: Identity) -> bool:
        return self._certificate == (identity.certificate_pem, identity.key_pem)


class Connections:
    """Gives out connections; those that were given up are closed as soon as what goes over them has ended."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._current: _Pool | None = None
        self._given_up: set[_Pool] = set()

    @asynccontextmanager
    async def showing(self, identity: Identity) -> AsyncIterator[httpx.AsyncClient]:
        """Lend connections that show this identity's certificate. Raises CredentialsError.

        A SilentError that leaves the context gives them up.
        """
        pool, old = self._current, None
        if pool is None or not pool.shows(identity):
            old, pool = pool, _Pool(self._connect(identity), identity)
            self._current = pool
        pool.users += 1
        try:
            if old is not None:
                await self._give_up(old)
            yield pool.http
        except SilentError:
            if pool is self._current:
                self._current = None
                await self._give_up(pool)
            raise
        finally:
            pool.users -= 1
            if pool in self._given_up:
                await self._close_if_unused(pool)

    async def close(self) -> None:
        """Close all connections, whatever goes over them."""
        pools = [*self._given_up, *([self._current] if self._current else [])]
        self._given_up.clear()
        self._current = None
        for pool in pools:
            await pool.http.aclose()

    async def _give_up(self, pool: _Pool) -> None:
        self._given_up.add(pool)
        await self._close_if_unused(pool)

    async def _close_if_unused(self, pool: _Pool) -> None:
        if not pool.users:
            self._given_up.discard(pool)
            await pool.http.aclose()

    def _connect(self, identity: Identity) -> httpx.AsyncClient:
        try:
            tls = self._tls(identity)
        except CredentialsError:
            # Its files may be about to be replaced one by one: look again before the next request.
            self._credentials.identity.doubt(identity)
            raise
        session = aiohttp.ClientSession(
            connector=_connector(tls, self._credentials.proxy),
            proxy=self._credentials.proxy if self._credentials.proxy.startswith("http:") else None,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # httpx does, where it must
            read_bufsize=_READ_BYTES,
        )
        return httpx.AsyncClient(
            transport=AiohttpTransport(session),
            headers={
                "Accept": "application/json",
                # To unpack a page would hold the event loop for longer than to decode it.
                "Accept-Encoding": "identity",
                "User-Agent": f"extender-service/{version('extender-service')}",
            },
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            trust_env=False,
        )

    def _tls(self, identity: Identity) -> ssl.SSLContext | Literal[True]:
        # To load the system's certificates holds the event loop for longer than all else; without TLS it is in vain.
        if self._credentials.server.startswith("http:"):
            return True
        return self._credentials.ssl_context(identity)


def _connector(tls: ssl.SSLContext | Literal[True], proxy: str) -> aiohttp.TCPConnector:
    url = urlsplit(proxy)
    if url.scheme in ("", "http"):
        return aiohttp.TCPConnector(
            ssl=tls, limit=0, keepalive_timeout=_IDLE_SECONDS, use_dns_cache=False, socket_factory=_socket
        )
    # aiohttp takes a proxy that speaks TLS itself for the API server: would show it our certificate, and trust it where
    # the cluster's authority vouches for it.
    is_socks = url.scheme == "socks5"
    return aiohttp_socks.ProxyConnector(
        host=url.hostname or "",
        port=url.port or (1080 if is_socks else 443),
        proxy_type=aiohttp_socks.ProxyType.SOCKS5 if is_socks else aiohttp_socks.ProxyType.HTTP,
        username=unquote(url.username) if url.username else None,
        password=unquote(url.password or "") if url.username else None,
        rdns=True,
        proxy_ssl=None if is_socks else ssl.create_default_context(),
        ssl=tls,
        limit=0,
        keepalive_timeout=_IDLE_SECONDS,
    )


def _socket(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """Return a socket for an address as getaddrinfo gives it."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    for option in _SOCKET_OPTIONS:
        made.setsockopt(*option)
    return made

"""How connections are made: TLS, proxies, and what the socket does where the peer is gone."""

import asyncio
import math
import socket
import ssl
import sys
from functools import cached_property, partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import version
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp
import aiohttp_socks
import httpx
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from extender_service.kube.connection.connection_errors import is_distrust
from extender_service.kube.connection.first_success import first_success
from extender_service.kube.connection.transport import AiohttpTransport, Tls
from extender_service.kube.credentials.client_tls import ServerTrust
from extender_service.kube.credentials.identity import Identity
from extender_service.kube.credentials.lookup import Credentials

# How long an idle connection is kept.
IDLE_SECONDS = 60.0

# Up to so much is read in one piece: with less, a page of a list takes a fifth more processor time.
_READ_BYTES = 1 << 20

# The kernel closes a connection at most this long after its peer is gone: it sends a keep-alive probe after 3 s without
# a byte, then every 2 s, and the peer must acknowledge what was sent within 5 s. So what a leader that is cut off sends
# (for 10 s after its last renewal) is not sent again when another one leads (after 15 s).
GONE_SECONDS = 8.0 if sys.platform == "linux" else math.inf
_SOCKET_OPTIONS = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
if sys.platform == "linux":
    _SOCKET_OPTIONS += [
        (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 3),
        (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2),
        (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2),
        (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000),
    ]

USER_AGENT = f"extender-service/{version('extender-service')}"


class Connector:
    """Opens connections to one server, as themselves or for an HTTP client."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self._tls: Tls = True

    def show(self, identity: Identity, trust: ServerTrust) -> None:
        """Present an identity's certificate on connections that are opened from now on, to whom `trust` allows.

        Raises CredentialsError.
        """
        # Loading the system's certificates blocks the event loop for longer than all else; without TLS they are unused.
        if not self._credentials.server.startswith("http:"):
            self._tls = self._credentials.ssl_context(identity, trust)

    async def open(self) -> ResponseHandler:
        """Open a connection, over which nothing is sent yet but to a proxy. Raises CONNECTION_ERRORS."""
        proxy = URL(self._http_proxy) if self._http_proxy else None
        request = aiohttp.ClientRequest(
            "GET",
            URL(self._credentials.server, encoded=True).with_user(None),
            loop=asyncio.get_running_loop(),
            proxy=proxy.with_user(None) if proxy else None,
            proxy_auth=aiohttp.BasicAuth.from_url(proxy, encoding="utf-8") if proxy else None,
            ssl=self._tls,
        )
        connector = self._connector()
        opened = None
        try:
            opened = await connector.open(request)
        except Exception as error:
            if is_distrust(error):
                self._credentials.trust.doubt()
            raise
        finally:
            try:
                await connector.close()
            except asyncio.CancelledError:
                if opened is not None:
                    opened.close()
                raise
        return opened

    def client(self) -> httpx.AsyncClient:
        """Return a client, which opens connections for its requests."""
        session = aiohttp.ClientSession(
            connector=self._connector(),
            proxy=self._http_proxy or None,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # httpx does, where it must
            read_bufsize=_READ_BYTES,
        )
        return httpx.AsyncClient(
            transport=AiohttpTransport(session, lambda: self._tls),
            headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": USER_AGENT},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            trust_env=False,
        )

    @property
    def _http_proxy(self) -> str:
        return self._credentials.proxy if self._credentials.proxy.startswith("http:") else ""

    def _connector(self) -> "_TCPConnector":
        url = urlsplit(self._credentials.proxy)
        if url.scheme in ("", "http"):
            return _DirectConnector(ssl=self._tls, keepalive_timeout=IDLE_SECONDS, use_dns_cache=False)
        # aiohttp treats a proxy that speaks TLS itself like the API server: it would present our certificate to it,
        # and trust it if the cluster's authority signed its certificate.
        is_socks = url.scheme == "socks5"
        decoded = unquote if is_socks else _as_latin_1
        return _ProxyConnector(
            host=url.hostname or "",
            port=url.port or (1080 if is_socks else 443),
            proxy_type=aiohttp_socks.ProxyType.SOCKS5 if is_socks else aiohttp_socks.ProxyType.HTTP,
            username=decoded(url.username) if url.username else None,
            password=decoded(url.password or "") if url.username else None,
            rdns=True,
            proxy_ssl=None if is_socks else self._proxy_tls,
            ssl=self._tls,
            keepalive_timeout=IDLE_SECONDS,
        )

    @cached_property
    def _proxy_tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()


def _as_latin_1(quoted: str) -> str:
    """Return what the library, which encodes a name for an HTTP proxy in Latin-1, sends as UTF-8, as Go does."""
    return unquote(quoted).encode().decode("latin-1")


class _TCPConnector(aiohttp.TCPConnector):
    """Opens connections, and sets the options of each socket."""

    async def open(self, request: aiohttp.ClientRequest) -> ResponseHandler:
        """Open a connection, which belongs to the caller, for requests to the same server as this one."""
        return await self._create_connection(request, [], aiohttp.ClientTimeout())

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - is aiohttp's
    ) -> ResponseHandler:
        protocol = await super()._create_connection(req, traces, timeout)
        made = None if protocol.transport is None else protocol.transport.get_extra_info("socket")
        if made is not None:  # it is None if the connection is lost already
            for option in _SOCKET_OPTIONS:
                made.setsockopt(*option)
        return protocol


class _DirectConnector(_TCPConnector):
    """Has the event loop make the sockets, where aiohttp would hand it a socket object of its own.

    uvloop and such an object both own the file descriptor. If the API server resets a connection before uvloop sends
    the first bytes of TLS, as one does that is killed, uvloop closes the descriptor and does not detach the object
    (up to uvloop 0.23 at least). When Python frees the object, it closes the same number again: by then that of another
    connection.
    """

    async def _wrap_create_connection(
        self,
        *args: Any,
        addr_infos: list[aiohttp.AddrInfoType],
        req: aiohttp.ClientRequest,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - is aiohttp's
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **options: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        attempts = [
            partial(
                self._wrap_existing_connection,  # maps errors, and passes the rest to the event loop
                *args,
                req=req,
                timeout=timeout,
                client_error=client_error,
                host=address[0],
                port=address[1],
                **options,
            )
            for *_, address in addr_infos
        ]
        return await first_success(attempts, lambda late: late[0].abort())


class _ProxyConnector(_TCPConnector, aiohttp_socks.ProxyConnector):
    """The same through a proxy. The library has the event loop make the sockets, too."""

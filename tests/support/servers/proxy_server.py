"""A proxy for tests, on a real socket of 127.0.0.1: HTTP, HTTPS or SOCKS5."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Proxy:
    """What it was asked: `targets` to connect to, `credentials` (user:password, or empty), certificates `shown`."""

    url: str
    targets: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)
    shown: list[object] = field(default_factory=list)

    def url_with(self, user: str, password: str) -> str:
        return self.url.replace("://", f"://{user}:{password}@")


@asynccontextmanager
async def proxy_server(scheme: str, tls: ssl.SSLContext | None = None) -> AsyncIterator[Proxy]:
    """Serve until the end of the block; over TLS, a client is asked for a certificate."""
    open_connections: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        open_connections.add(task)
        accept = _accept_socks if scheme == "socks5" else _accept_http
        host, port, credentials, head = await accept(reader, writer)
        proxy.targets.append(f"{host}:{port}")
        proxy.credentials.append(credentials)
        proxy.shown.append(writer.get_extra_info("peercert") or None)
        upstream_reader, upstream_writer = await asyncio.open_connection(host, port)
        upstream_writer.write(head)
        await asyncio.gather(copy(reader, upstream_writer), copy(upstream_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    proxy = Proxy(f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    try:
        yield proxy
    finally:
        server.close()
        await asyncio.gather(*open_connections)
        await server.wait_closed()


async def _accept_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int, str, bytes]:
    """Return where the client wants to go, who it is, and what to send on."""
    head = await reader.readuntil(b"\r\n\r\n")
    line, *rest = head.decode().strip().split("\r\n")
    method, target, _ = line.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (item.partition(":") for item in rest)}
    assert "authorization" not in headers or method != "CONNECT"
    credentials = base64.b64decode(headers.get("proxy-authorization", "").removeprefix("Basic ")).decode()
    if method == "CONNECT":
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        head = b""
    url = urlsplit(f"//{target}" if method == "CONNECT" else target)
    assert url.hostname
    assert url.port
    return url.hostname, url.port, credentials, head


async def _accept_socks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int, str, bytes]:
    """Return where the client wants to go, and who it is (RFC 1928, RFC 1929)."""
    _, count = await reader.readexactly(2)
    methods, credentials = await reader.readexactly(count), ""
    if 2 in methods:
        writer.write(b"\5\2")
        _, length = await reader.readexactly(2)
        user = await reader.readexactly(length)
        (length,) = await reader.readexactly(1)
        credentials = f"{user.decode()}:{(await reader.readexactly(length)).decode()}"
        writer.write(b"\1\0")
    else:
        writer.write(b"\5\0")
    *_, kind = await reader.readexactly(4)  # version 5, connect, reserved, the kind of address
    if kind == 1:
        host = ".".join(str(byte) for byte in await reader.readexactly(4))
    else:
        (length,) = await reader.readexactly(1)
        host = (await reader.readexactly(length)).decode()
    port = int.from_bytes(await reader.readexactly(2), "big")
    writer.write(b"\5\0\0\1" + bytes(6))
    return host, port, credentials, b""

"""A small HTTP/1.1 server for tests, on a real socket of 127.0.0.1: it can also stall, cut and lie."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Request:
    """One request; names of headers are in lower case, `certificate` is what the client showed."""

    method: str
    path: str
    query: dict[str, str]
    headers: list[tuple[str, str]]
    body: bytes
    certificate: Mapping[str, Any] | None

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)


class Response:
    """The ways to answer a request."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def send_json(self, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
        body = json.dumps(value).encode()
        await self.send_head(status, {"Content-Length": str(len(body)), **(headers or {})})
        await self.send_raw(body)

    async def start_chunks(self) -> None:
        await self.send_head(200, {"Transfer-Encoding": "chunked"})

    async def send_chunk(self, data: bytes) -> None:
        await self.send_raw(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_chunks(self) -> None:
        await self.send_raw(b"0\r\n\r\n")

    async def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers.items())]
        await self.send_raw("".join(f"{line}\r\n" for line in lines).encode() + b"\r\n")

    async def send_raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def cut(self) -> None:
        self._writer.transport.abort()

    def end(self) -> None:
        """Close the connection once all is sent."""
        self._writer.close()


Handler = Callable[[Request, Response], Awaitable[None]]


@asynccontextmanager
async def http_server(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve until the end of the block; the value is the server's URL. Open connections end with the block."""
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        connections.add(task)
        try:
            while request := await _read_request(reader, writer):
                await handler(request, Response(writer))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            connections.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        port = server.sockets[0].getsockname()[1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections)
        await server.wait_closed()


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    line, *rest = head.strip().split("\r\n")
    method, target, _ = line.split(" ")
    headers = [(name.lower(), value.strip()) for name, _, value in (item.partition(":") for item in rest)]
    body = await reader.readexactly(int(dict(headers).get("content-length", 0)))
    url = urlsplit(target)
    certificate = writer.get_extra_info("peercert") or None
    return Request(method, url.path, dict(parse_qsl(url.query)), headers, body, certificate)

"""A server within limits, and callers over real connections."""

import asyncio
import gc
import json
import logging
import socket
import ssl
import struct
import time
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send

from extender_service.serving.browsers import BrowserGuard
from extender_service.serving.connection_limits import ConnectionLimits, LimitedConnections
from extender_service.serving.limited_http import LimitedHTTP
from extender_service.serving.limited_server import LimitedServer
from extender_service.serving.refusals import Refusals
from extender_service.serving.scope import ARRIVED, HUNG_UP
from extender_service.serving.server_tls import ServingCertificates, TLSFiles
from tests.support.servers.certificates import client_context, issue, overwrite, pem_files

Run = Callable[[Coroutine[Any, Any, None]], None]
HEAD = b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\n"
REQUEST = HEAD + b"Content-Length: 2\r\n\r\n{}"
LIMITS = ConnectionLimits(connections=20)
# Bytes of an answer that the system's buffers do not take whole.
LARGE = 50_000_000

both_loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run])


class Server:
    def __init__(self, limits: ConnectionLimits, certificates: ServingCertificates | None) -> None:
        self.refusals = Refusals()
        self.connections = LimitedConnections(limits, self.refusals)
        config = uvicorn.Config(self._app, interface="asgi3", proxy_headers=False, lifespan="off", log_config=None)
        config.load()
        config.ssl = None if certificates is None else certificates.context
        self.server = LimitedServer(config, self.connections, BrowserGuard("127.0.0.1"))
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.scopes: list[Scope] = []
        self.bodies: list[bytes] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.answer_bytes = 2
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self) -> "Caller":
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.getsockname()[1])
        self.writers.append(writer)
        return Caller(reader, writer)

    async def has_begun(self, requests: int) -> None:
        await until(lambda: len(self.bodies) == requests)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        message = await receive()
        body = message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        self.bodies.append(body)
        await self.may_answer.wait()
        headers = [(b"content-length", b"%d" % self.answer_bytes)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"x" * self.answer_bytes})


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, request: bytes = REQUEST) -> bytes:
        """Send it; returns the status line of the answer, or nothing where the connection is closed."""
        self.writer.write(request)
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            await self.reader.readexactly(2)
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        return head.partition(b"\r\n")[0]

    async def takes_large(self) -> bytes:
        """Read a large answer; returns its status line."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        await self.reader.readexactly(LARGE)
        return head.partition(b"\r\n")[0]

    async def is_hung_up_on(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


@asynccontextmanager
async def serving(
    limits: ConnectionLimits = LIMITS, certificates: ServingCertificates | None = None
) -> AsyncIterator[Server]:
    made = Server(limits, certificates)
    serving = asyncio.create_task(made.server._serve([made.listener]))
    async with asyncio.timeout(20):
        yield made
    made.server.should_exit = made.server.force_exit = True
    for writer in made.writers:
        writer.transport.abort()
    await serving


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.001)


@both_loops
def test_requests_are_answered_and_know_when_they_came(run: Run) -> None:
    async def main() -> None:
        async with serving() as server:
            caller = await server.connect()
            for _ in range(3):
                assert await caller.ask() == b"HTTP/1.1 200 OK"
            assert len(server.connections) == 1
            assert all(scope[ARRIVED] > 0 for scope in server.scopes)
            caller.writer.close()
            await until(lambda: len(server.connections) == 0)

    run(main())


def reset(caller: socket.socket) -> None:
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    caller.close()


def ask_again_and_close(caller: socket.socket) -> None:
    caller.sendall(REQUEST)
    caller.close()


GOODBYES: dict[str, Callable[[socket.socket], object]] = {
    "closes": socket.socket.close,
    "resets": reset,
    "closes after another request": ask_again_and_close,
    "sends no more": lambda caller: caller.shutdown(socket.SHUT_WR),
}


@pytest.mark.parametrize("goodbye", GOODBYES.values(), ids=GOODBYES.keys())
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "TLS"])
@both_loops
def test_that_a_caller_is_gone_is_known_before_the_event_loop_reads_it(
    run: Run, is_encrypted: bool, goodbye: Callable[[socket.socket], object], tmp_path: Path
) -> None:
    authority = trustme.CA()
    overwrite(tmp_path, pem_files(issue(authority, "127.0.0.1")))
    files = TLSFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    certificates = ServingCertificates(files, Refusals()) if is_encrypted else None
    context = client_context(authority) if is_encrypted else None

    async def main() -> None:
        async with serving(certificates=certificates) as server:
            server.may_answer.clear()
            address = server.listener.getsockname()
            with await asyncio.to_thread(connected, address, context) as caller:
                caller.sendall(REQUEST)
                await until(lambda: len(server.scopes) == 1)
                hung_up = server.scopes[0][HUNG_UP]
                assert not hung_up()
                goodbye(caller)
                assert in_time(hung_up)
                server.may_answer.set()
                await until(lambda: len(server.connections) == 0)
                assert hung_up()

    run(main())


@pytest.mark.parametrize("goodbye", [socket.socket.close, reset], ids=["closes", "resets"])
@pytest.mark.parametrize("is_encrypted", [False, True], ids=["plain", "TLS"])
@both_loops
def test_a_connection_that_has_ended_is_not_kept(
    run: Run, is_encrypted: bool, goodbye: Callable[[socket.socket], None], tmp_path: Path
) -> None:
    authority = trustme.CA()
    overwrite(tmp_path, pem_files(issue(authority, "127.0.0.1")))
    files = TLSFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    certificates = ServingCertificates(files, Refusals()) if is_encrypted else None
    context = client_context(authority) if is_encrypted else None

    async def main() -> None:
        async with serving(certificates=certificates) as server:
            caller = await asyncio.to_thread(connected, server.listener.getsockname(), context)
            caller.sendall(REQUEST)
            await asyncio.to_thread(caller.recv, 1000)
            (connection,) = server.server.server_state.connections
            held = weakref.ref(connection)
            del connection
            server.scopes.clear()  # which know whether the caller is gone
            goodbye(caller)
            await until(lambda: len(server.connections) == 0)
            await asyncio.sleep(0.05)
            gc.collect()
            assert held() is None

    run(main())


def in_time(holds: Callable[[], bool]) -> bool:
    """Wait until something holds, and keep the event loop from reading, as a decision does."""
    for _ in range(10_000):
        if holds():
            return True
        time.sleep(0.001)
    return False


def connected(address: tuple[str, int], context: ssl.SSLContext | None) -> socket.socket:
    plain = socket.create_connection(address)
    return plain if context is None else context.wrap_socket(plain, server_hostname=address[0])


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"X: " + b"x" * 20_000 + b"\r\n\r\n",
        HEAD + b"".join(b"X%d: y\r\n" % number for number in range(200)) + b"\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
        HEAD + b"X: " + b"x" * 100_000,
        HEAD + b"".join(b"X%d: y\r\n" % number for number in range(20_000)),
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: " + b"x" * 20_000,
    ],
    ids=["a header", "headers", "a path", "a header without end", "headers without end", "trailers"],
)
@both_loops
def test_a_large_head_is_refused(run: Run, head: bytes) -> None:
    async def main() -> None:
        async with serving() as server:
            caller = await server.connect()
            for at in range(0, len(head), 4000):
                caller.writer.write(head[at : at + 4000])
                await asyncio.sleep(0.001)
            answer = await caller.reader.read(1000)
            assert answer.startswith(b"HTTP/1.1 431 ") or b"Transfer-Encoding" in head
            assert server.refusals.counts["header"] == 1
            other = await server.connect()
            assert await other.ask() == b"HTTP/1.1 200 OK"

    run(main())


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (HEAD + b"Origin: http://evil.example\r\nContent-Type: text/plain\r\n", "origin"),
        (b"POST /filter HTTP/1.1\r\nHost: evil.example:8888\r\n", "host"),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example:8888\r\n", "host"),
        (HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\norigin: null\r\n", "origin"),
    ],
)
@both_loops
def test_what_a_web_page_makes_a_browser_send_is_refused_unread(run: Run, head: bytes, reason: str) -> None:
    async def main() -> None:
        async with serving() as server:
            caller = await server.connect()
            assert await caller.ask() == b"HTTP/1.1 200 OK"
            caller.writer.write(head + b"Content-Length: 2\r\n\r\n{}" + REQUEST)
            answer = await caller.reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\nconnection: close\r\n")
            assert f"{reason.capitalize()} header" in json.loads(await caller.reader.readline())["Error"]
            assert len(server.scopes) == 1
            assert server.refusals.counts[reason] == 1

    run(main())


@pytest.mark.parametrize(
    "request_head", [b"POST /filter HTTP/1.0\r\n", b"POST /filter HTTP/1.1\r\nhOST:[::1]:8888\r\n"]
)
def test_who_is_no_browser_is_answered(request_head: bytes) -> None:
    async def main() -> None:
        async with serving() as server:
            caller = await server.connect()
            assert await caller.ask(request_head + b"Content-Length: 2\r\n\r\n{}") == b"HTTP/1.1 200 OK"

    asyncio.run(main())


# As curl --http2 sends it, and an odd one.
UPGRADES = [
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
    b"UPGRADE: websocket, h2c\r\nX-Empty:\r\nUpgrade: TLS/1.0\r\nconnection: upgrade\r\nX: a\tb \xff\r\n",
]
LENGTH, CHUNKED = (
    b"Content-Length: 5\r\n\r\nabcde",
    b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n",
)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("framed", [LENGTH, CHUNKED], ids=["length", "chunked"])
@pytest.mark.parametrize("upgrade", UPGRADES, ids=["h2c", "odd"])
@both_loops
def test_another_protocol_is_not_spoken_and_the_request_is_answered(
    run: Run, upgrade: bytes, framed: bytes, size: int
) -> None:
    async def main() -> None:
        async with serving() as server:
            caller = await server.connect()
            request = HEAD + upgrade + framed
            for _ in range(2):
                for at in range(0, len(request), size):
                    caller.writer.write(request[at : at + size])
                    await asyncio.sleep(0)
                assert await caller.ask(b"") == b"HTTP/1.1 200 OK"
                assert await caller.ask() == b"HTTP/1.1 200 OK"
            # Several at once: each has its own body.
            caller.writer.write(3 * request + REQUEST + request)
            for _ in range(5):
                assert await caller.ask(b"") == b"HTTP/1.1 200 OK"
            assert server.bodies == [b"abcde", b"{}"] * 2 + [b"abcde"] * 3 + [b"{}", b"abcde"]
            last = server.scopes[0]
            assert (last["method"], last["path"], last["http_version"]) == ("POST", "/filter", "1.1")
            headers = [(name.lower(), value) for line in upgrade.split(b"\r\n")[:-1] for name, value in [split(line)]]
            assert [each for each in last["headers"] if each in headers] == [
                each for each in headers if each[0] != b"upgrade"
            ]
            assert not any(server.refusals.counts.values())

    run(main())


def split(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name, value.strip()


def test_the_last_request_of_a_connection_may_ask_for_another_protocol() -> None:
    async def main() -> None:
        async with serving() as server:
            for version in (b"1.0", b"1.1"):
                caller = await server.connect()
                head = b"POST /filter HTTP/" + version + b"\r\nHost: localhost\r\nConnection: close, upgrade\r\n"
                assert await caller.ask(head + b"Upgrade: h2c\r\n" + LENGTH) == b"HTTP/1.1 200 OK"
                assert await caller.is_hung_up_on()
            assert server.bodies == [b"abcde"] * 2
            assert [scope["http_version"] for scope in server.scopes] == ["1.0", "1.1"]

    asyncio.run(main())


def test_nothing_is_tunnelled(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving() as server:
            caller = await server.connect()
            connect = (
                b"CONNECT /filter HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
            )
            assert await caller.ask(connect + b"what is not HTTP") == b"HTTP/1.1 200 OK"
            assert await caller.ask() == b"HTTP/1.1 200 OK"
            assert [scope["method"] for scope in server.scopes] == ["CONNECT", "POST"]
            assert server.bodies == [b"", b"{}"]

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert not caplog.records


@both_loops
def test_a_flood_of_what_is_no_http_does_not_fill_the_log(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with serving() as server:
            for _ in range(50):
                caller = await server.connect()
                assert await caller.ask(b"\x00 no HTTP\r\n\r\n") == b"HTTP/1.1 400 Bad Request"
                await caller.reader.read()
            assert server.refusals.counts["malformed"] == 50
            assert await (await server.connect()).ask() == b"HTTP/1.1 200 OK"

    with caplog.at_level(logging.INFO):
        run(main())
    logged = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert logged[0] == "refused a connection: a request is not HTTP"
    assert len(logged) < 10


def test_what_follows_a_refused_head_is_not_answered() -> None:
    async def main() -> None:
        async with serving() as server:
            caller = await server.connect()
            caller.writer.write(HEAD + b"Origin: http://evil.example\r\n\r\n\x00 no HTTP\r\n\r\n")
            assert (await caller.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 403 ")
            await caller.reader.readline()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await caller.reader.read()
            assert (server.refusals.counts["origin"], server.refusals.counts["malformed"]) == (1, 0)

    asyncio.run(main())


def test_a_flood_of_requests_for_another_protocol_is_refused_like_any() -> None:
    async def main() -> None:
        async with serving() as server:
            server.may_answer.clear()
            caller = await server.connect()
            caller.writer.write(50_000 * (HEAD + b"Connection: upgrade\r\nUpgrade: a\r\n\r\n"))
            await until(lambda: server.refusals.counts["header"] == 1)
            assert await caller.is_hung_up_on()
            assert len(server.scopes) == 1
            server.may_answer.set()
            assert await (await server.connect()).ask() == b"HTTP/1.1 200 OK"

    asyncio.run(main())


def test_a_head_within_the_limit_is_answered_whatever_its_pieces() -> None:
    async def main() -> None:
        head = HEAD + b"X: " + b"x" * 10_000 + b"\r\nContent-Length: 100000\r\n\r\n"
        async with serving() as server:
            caller = await server.connect()
            for at in range(0, len(head), 500):
                caller.writer.write(head[at : at + 500])
                await asyncio.sleep(0.001)
            assert await caller.ask(b"x" * 100_000) == b"HTTP/1.1 200 OK"
            assert await caller.ask(head + b"x" * 100_000) == b"HTTP/1.1 200 OK"
            assert server.refusals.counts["header"] == 0

    asyncio.run(main())


@both_loops
@pytest.mark.parametrize("size", [1, 100, 70_000, 1_000_000])
def test_a_body_is_received_as_it_came_whatever_its_pieces(run: Run, size: int) -> None:
    async def main() -> None:
        body = bytes(range(256)) * 4000
        pieces = [body[at : at + size] for at in range(0, len(body) if size > 1 else 20_000, size)]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        async with serving() as server:
            caller = await server.connect()
            await caller.ask(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
            await caller.ask(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert server.bodies == [b"".join(pieces), body]

    run(main())


def test_a_chunked_body_is_no_head() -> None:
    async def main() -> None:
        async with serving() as server:
            caller = await server.connect()
            caller.writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(50):
                caller.writer.write(b"3e8\r\n" + 1000 * b"x" + b"\r\n")
                await asyncio.sleep(0)
            assert await caller.ask(b"0\r\n\r\n") == b"HTTP/1.1 200 OK"

    asyncio.run(main())


SLOW = {
    "nothing": (b"", "idle_seconds", 0),
    "empty lines": (b"\r\n\r\n", "idle_seconds", 0),
    "a part of a head": (HEAD, "header_seconds", 1),
    "a part of a body": (HEAD + b"Content-Length: 9\r\n\r\n{}", "request_seconds", 1),
    "nothing more after an answer": (REQUEST, "idle_seconds", 0),
    "a part of another request": (REQUEST + HEAD, "header_seconds", 1),
}


@pytest.mark.parametrize(("sent", "limit", "counted"), SLOW.values(), ids=SLOW.keys())
@both_loops
def test_what_does_not_come_in_time_is_not_waited_for(run: Run, sent: bytes, limit: str, counted: int) -> None:
    async def main() -> None:
        limits: dict[str, Any] = {limit: 0.05}
        async with serving(replace(LIMITS, **limits)) as server:
            caller = await server.connect()
            caller.writer.write(sent)
            if sent.startswith(REQUEST):
                await caller.reader.readuntil(b"\r\n\r\n")
                await caller.reader.readexactly(2)
            await until(lambda: len(server.connections) == 1)
            await asyncio.sleep(0.1)
            server.connections.look(0)
            assert await caller.is_hung_up_on()
            await until(lambda: len(server.connections) == 0)
            assert server.refusals.counts["slow"] == counted

    run(main())


@both_loops
def test_a_call_that_is_being_answered_has_time(run: Run) -> None:
    async def main() -> None:
        limits = replace(LIMITS, idle_seconds=0.05, header_seconds=0.05, request_seconds=0.05)
        async with serving(limits) as server:
            server.may_answer.clear()
            caller = await server.connect()
            answer = asyncio.create_task(caller.ask())
            await until(lambda: len(server.scopes) == 1)
            await asyncio.sleep(0.1)
            server.connections.look(0)
            server.may_answer.set()
            assert await answer == b"HTTP/1.1 200 OK"

    run(main())


@both_loops
def test_an_answer_that_nobody_takes_is_dropped(run: Run) -> None:
    async def main() -> None:
        async with serving(replace(LIMITS, request_seconds=0.05)) as server:
            server.answer_bytes = LARGE
            caller = await server.connect()
            caller.writer.write(REQUEST)
            await until(lambda: len(server.scopes) == 1)
            await asyncio.sleep(0.1)
            server.connections.look(0)
            await asyncio.sleep(0.1)
            server.connections.look(0)
            await until(lambda: len(server.connections) == 0)
            assert server.refusals.counts["slow"] == 1

    run(main())


@both_loops
def test_no_request_begins_while_its_caller_does_not_take_the_last_answer(run: Run) -> None:
    async def main() -> None:
        async with serving() as server:
            server.answer_bytes = LARGE
            caller = await server.connect()
            caller.writer.write(REQUEST)
            await server.has_begun(1)
            body = b"x" * 5_000_000
            caller.writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            (connection,) = server.server.server_state.connections
            assert isinstance(connection, LimitedHTTP)
            await until(lambda: len(connection.cycle.body) > 0)
            await asyncio.sleep(0.05)
            assert len(server.scopes) == 1
            assert len(connection.cycle.body) < 1_000_000  # the rest of it stays in the caller's socket
            server.answer_bytes = 2
            assert await caller.takes_large() == b"HTTP/1.1 200 OK"
            assert await caller.ask(b"") == b"HTTP/1.1 200 OK"
            assert server.bodies == [b"{}", body]

    run(main())


@both_loops
def test_of_several_requests_at_once_one_begins_with_each_answer_that_is_taken(run: Run) -> None:
    async def main() -> None:
        async with serving() as server:
            server.answer_bytes = LARGE
            caller = await server.connect()
            caller.writer.write(3 * REQUEST)
            for begun in (1, 2, 3):
                await server.has_begun(begun)
                await asyncio.sleep(0.05)
                assert len(server.scopes) == begun
                assert await caller.takes_large() == b"HTTP/1.1 200 OK"

    run(main())


@both_loops
def test_a_request_whose_caller_goes_without_the_last_answer_is_not_decided_about(run: Run) -> None:
    async def main() -> None:
        async with serving() as server:
            server.answer_bytes = LARGE
            caller = await server.connect()
            caller.writer.write(2 * REQUEST)
            await server.has_begun(1)
            caller.writer.transport.abort()
            await until(lambda: len(server.connections) == 0)
            await until(lambda: not server.server.server_state.tasks)
            assert server.bodies[1:] in ([], [b""])  # no part of it is received

    run(main())


@both_loops
def test_strangers_make_room_for_those_who_ask(run: Run) -> None:
    async def main() -> None:
        async with serving() as server:
            kept = await server.connect()
            assert await kept.ask() == b"HTTP/1.1 200 OK"
            strangers = [await server.connect() for _ in range(60)]
            for stranger in strangers:
                stranger.writer.write(HEAD)
            new = await server.connect()
            assert await new.ask() == b"HTTP/1.1 200 OK"
            assert await kept.ask() == b"HTTP/1.1 200 OK"
            assert len(server.connections) <= 20
            assert await strangers[0].is_hung_up_on()

    run(main())


@both_loops
def test_a_call_whose_body_is_arriving_stays_while_others_are_idle(run: Run) -> None:
    async def main() -> None:
        async with serving(replace(LIMITS, connections=3)) as server:
            asking, idle, later = [await server.connect() for _ in range(3)]
            for caller in (asking, idle, later):
                assert await caller.ask() == b"HTTP/1.1 200 OK"
            asking.writer.write(REQUEST[:-1])
            await until(lambda: len(server.scopes) == 4)
            assert await (await server.connect()).ask() == b"HTTP/1.1 200 OK"
            assert await idle.is_hung_up_on()
            assert await asking.ask(REQUEST[-1:]) == b"HTTP/1.1 200 OK"
            assert server.bodies[-1] == b"{}"

    run(main())


@both_loops
def test_while_all_are_busy_there_is_no_room(run: Run) -> None:
    async def main() -> None:
        async with serving(replace(LIMITS, connections=2)) as server:
            server.may_answer.clear()
            busy = [await server.connect() for _ in range(2)]
            answers = [asyncio.create_task(caller.ask()) for caller in busy]
            await until(lambda: len(server.scopes) == 2)
            assert await (await server.connect()).is_hung_up_on()
            server.may_answer.set()
            assert await asyncio.gather(*answers) == [b"HTTP/1.1 200 OK"] * 2

    run(main())


@both_loops
def test_requests_may_come_before_the_answer_but_not_any_number(run: Run) -> None:
    async def main() -> None:
        async with serving() as server:
            caller = await server.connect()
            caller.writer.write(10 * REQUEST)
            for _ in range(10):
                assert await caller.ask(b"") == b"HTTP/1.1 200 OK"
            caller.writer.write(100 * REQUEST)
            while not caller.reader.at_eof():
                try:
                    await caller.reader.read(1000)
                except ConnectionError:
                    break
            await until(lambda: len(server.connections) == 0)

    run(main())

import asyncio
import errno
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
import uvloop

from extender_service.serving.connection_limits import ConnectionLimits, LimitedConnections
from extender_service.serving.limited_server import HANDSHAKES_AT_ONCE, Acceptor
from extender_service.serving.refusals import Refusals
from extender_service.serving.server_tls import ServingCertificates, TLSConnection, TLSFiles
from tests.support.servers.certificates import client_context, issue, overwrite, pem_files

Run = Callable[[Coroutine[Any, Any, None]], None]
AUTHORITY = trustme.CA()

both_loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run])


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    no_delay: int

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        accepted = transport.get_extra_info("socket")
        Echo.no_delay = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class World:
    def __init__(self, tls: ssl.SSLContext | None = None, **limits: Any) -> None:
        self.refusals = Refusals()
        self.connections = LimitedConnections(ConnectionLimits(**limits), self.refusals)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.acceptor = Acceptor(self.listener, Echo, self.connections, tls).start()
        self.port = self.listener.getsockname()[1]

    async def echo(self, tls: ssl.SSLContext | None = None) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)
        writer.write(b"hello")
        answer = await reader.readexactly(5)
        writer.close()
        return answer

    async def close(self) -> None:
        self.acceptor.close()
        await self.acceptor.wait_closed()
        self.listener.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.001)


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    overwrite(tmp_path, pem_files(issue(AUTHORITY, "127.0.0.1"), AUTHORITY))
    files = TLSFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    return ServingCertificates(files, Refusals()).context


@both_loops
def test_connections_are_accepted_until_it_is_closed(run: Run) -> None:
    async def main() -> None:
        world = World()
        assert [await world.echo() for _ in range(3)] == [b"hello"] * 3
        assert Echo.no_delay
        await world.close()
        with pytest.raises(ConnectionError):
            await world.echo()

    run(main())


@both_loops
def test_a_handshake_has_a_time_limit(run: Run, tls: ssl.SSLContext) -> None:
    async def main() -> None:
        world = World(tls, handshake_seconds=0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        assert await reader.read() == b""
        await until(lambda: len(world.connections) == 0)
        assert world.refusals.counts["slow"] == 1
        writer.close()
        await world.close()

    run(main())


@both_loops
def test_handshakes_that_hang_make_room_for_those_who_prove_themselves(run: Run, tls: ssl.SSLContext) -> None:
    async def main() -> None:
        world = World(tls, connections=5)
        silent = [await asyncio.open_connection("127.0.0.1", world.port) for _ in range(20)]
        await until(lambda: world.refusals.counts["crowd"] >= 15)
        client = client_context(AUTHORITY, issue(AUTHORITY, "a.test"))
        assert await world.echo(client) == b"hello"
        assert await silent[0][0].read() == b""
        assert len(world.connections) <= 5
        for _, writer in silent:
            writer.transport.abort()
        await until(lambda: len(world.connections) == 0)
        await world.close()

    run(main())


@both_loops
def test_of_a_flood_of_handshakes_few_are_worked_on_in_one_turn_of_the_event_loop(
    run: Run, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = 0
    answered_in: Counter[int] = Counter()
    do_handshake = TLSConnection.do_handshake

    def counted(connection: TLSConnection) -> None:
        try:
            do_handshake(connection)
        finally:
            answered_in[turn] += connection.outgoing.pending > 0

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def main() -> None:
        world = World(tls)
        callers = [socket.create_connection(("127.0.0.1", world.port)) for _ in range(100)]
        for caller in callers:
            caller.sendall(client_hello())
        counting = asyncio.create_task(count_turns())
        await until(lambda: answered_in.total() == len(callers))
        counting.cancel()
        assert max(answered_in.values()) <= 2 * HANDSHAKES_AT_ONCE
        for caller in callers:
            caller.close()
        await world.close()

    monkeypatch.setattr(TLSConnection, "do_handshake", counted)
    run(main())


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0], ids=["nothing", "half a hello", "a hello"])
@both_loops
def test_clients_that_do_not_go_on_keep_nobody_from_a_handshake(run: Run, tls: ssl.SSLContext, share: float) -> None:
    async def main() -> None:
        world = World(tls)
        hello = client_hello()
        silent = [await asyncio.open_connection("127.0.0.1", world.port) for _ in range(5 * HANDSHAKES_AT_ONCE)]
        for _, writer in silent:
            writer.write(hello[: int(share * len(hello))])
        await until(lambda: len(world.connections) == len(silent))
        async with asyncio.timeout(5):
            assert await world.echo(client_context(AUTHORITY, issue(AUTHORITY, "a.test"))) == b"hello"
        for _, writer in silent:
            writer.transport.abort()
        await until(lambda: len(world.connections) == 0)
        await world.close()

    run(main())


def client_hello() -> bytes:
    """The first bytes of a TLS client."""
    sent = ssl.MemoryBIO()
    client = client_context(AUTHORITY).wrap_bio(ssl.MemoryBIO(), sent, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


@both_loops
def test_without_files_left_it_waits_a_moment(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("extender_service.serving.limited_server._PAUSE_SECONDS", 0.05)

    class Exhausted:
        """A listener that cannot accept once."""

        def __init__(self, listener: socket.socket) -> None:
            self.listener = listener
            self.failures = [OSError(errno.EMFILE, "Too many open files")]

        def __getattr__(self, name: str) -> Any:
            return getattr(self.listener, name)

        def accept(self) -> Any:
            if self.failures:
                raise self.failures.pop()
            return self.listener.accept()

    async def main() -> None:
        world = World()
        world.acceptor._listener = Exhausted(world.listener)  # type: ignore[assignment]
        assert await world.echo() == b"hello"
        await world.close()

    run(main())
    assert [record.getMessage() for record in caplog.records] == [
        "cannot accept connections for a moment: Too many open files"
    ]

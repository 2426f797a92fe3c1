import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from random import Random
from typing import Any

import pytest

from tests.worlds.simulation.process import Process
from tests.worlds.simulation.routes import Break
from tests.worlds.simulation.world import World

# Freed while a later test runs, a process with open connections would fail that test.
_KEPT: list[Process] = []


class Server(asyncio.Protocol):
    """Keeps what comes, and how the connection ended."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.transport: asyncio.Transport | None = None
        self.end: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end.append(exc)


async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("10.0.0.1", 80)


def run(client: Callable[[Any], Coroutine[Any, Any, None]], seconds: float = 60.0) -> tuple[World, Server, Process]:
    """A world with a server and a client, after so many seconds."""
    world, server, process = begin(client)
    world.run(seconds)
    return world, server, process


def begin(client: Callable[[Any], Coroutine[Any, Any, None]]) -> tuple[World, Server, Process]:
    world, server = World(1), Server()
    world.network.listen(world.loop("server"), "10.0.0.1", 80, lambda: server)
    process = Process(world, "client", client)
    _KEPT.append(process)
    process.start()
    return world, server, process


def test_bytes_arrive_in_their_order_in_other_pieces() -> None:
    sent = [b"%d," % number for number in range(1000)]

    async def client(_: object) -> None:
        _, writer = await connect()
        for piece in sent:
            writer.write(piece)
            await asyncio.sleep(0)
        writer.close()
        await writer.wait_closed()

    _, server, process = run(client)
    assert process.outcome == "exits"
    assert b"".join(server.pieces) == b"".join(sent)
    assert server.pieces != sent
    assert server.end == [None]


def test_where_nobody_listens_the_connection_is_refused() -> None:
    async def client(_: object) -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("10.0.0.9", 80)

    assert run(client)[2].outcome == "exits"


def test_a_writer_waits_for_a_reader_that_does_not_read() -> None:
    written: list[float] = []

    async def client(_: object) -> None:
        _, writer = await connect()
        for _ in range(20):
            writer.write(bytes(1 << 16))
            await writer.drain()
            written.append(len(written))
        writer.close()
        await writer.wait_closed()

    world, server, process = begin(client)
    world.run(0.001)
    while server.transport is None:
        world.run(world.timeline.now + 0.001)
    server.transport.pause_reading()
    world.run(10.0)
    assert len(written) < 10
    server.transport.resume_reading()
    world.run(20.0)
    assert process.outcome == "exits"
    assert sum(map(len, server.pieces)) == 20 << 16


def test_the_connections_of_a_process_that_is_killed_end() -> None:
    async def client(_: object) -> None:
        _, writer = await connect()
        await asyncio.sleep(1e6)
        writer.close()

    world, server, process = begin(client)
    world.timeline.call_at(5.0, process.kill)
    world.run(6.0)
    assert server.end == [None]


def test_what_arrives_at_a_frozen_process_waits_there() -> None:
    read: list[tuple[float, bytes]] = []

    async def client(_: object) -> None:
        reader, writer = await connect()
        while data := await reader.read(100):
            read.append((world.timeline.now, data))
        writer.close()

    world, server, process = begin(client)
    world.run(1.0)
    process.freeze()
    assert server.transport is not None
    server.transport.write(b"hello")
    world.run(10.0)
    process.thaw()
    world.run(20.0)
    assert [(round(at), data) for at, data in read] == [(10, b"hello")]
    server.transport.close()
    world.run(21.0)
    assert process.outcome == "exits"


def test_between_hosts_that_are_cut_off_nothing_arrives_and_neither_notices() -> None:
    read: list[tuple[float, bytes]] = []

    async def client(_: object) -> None:
        reader, writer = await connect()
        while data := await reader.read(100):
            read.append((world.timeline.now, data))
        writer.close()

    world, server, process = begin(client)
    world.run(1.0)
    world.network.cut("client", "server")
    assert server.transport is not None
    server.transport.write(b"one,")
    world.run(5.0)
    server.transport.write(b"two")
    server.transport.close()
    world.run(30.0)
    assert (read, process.outcome) == ([], None)
    world.network.mend("client", "server")
    world.run(40.0)
    assert b"".join(data for _, data in read) == b"one,two"
    assert process.outcome == "exits"


def test_a_connection_that_is_opened_too_late_is_closed() -> None:
    async def client(_: object) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5.0):
                await connect()

    world, server, process = begin(client)
    world.network.cut("client", "server")
    world.run(10.0)
    assert process.outcome == "exits"
    world.network.mend("client", "server")
    world.run(20.0)
    assert server.pieces == []


def test_a_route_that_is_cut_loses_one_direction_only() -> None:
    read: list[bytes] = []

    async def client(_: object) -> None:
        reader, writer = await connect()
        writer.write(b"question")
        while data := await reader.read(100):
            read.append(data)
        writer.close()

    world, server, _ = begin(client)
    world.timeline.call_at(0.0, world.network.route("server", "client").cut)
    world.run(0.01)
    assert server.transport is not None
    world.network.route("server", "client").mend()
    world.run(1.0)
    world.network.route("server", "client").cut()
    server.transport.write(b"answer")
    world.run(5.0)
    assert (b"".join(server.pieces), read) == (b"question", [])
    world.network.route("server", "client").mend()
    world.run(10.0)
    assert b"".join(read) == b"answer"


@pytest.mark.parametrize("resets", [True, False])
def test_a_connection_breaks_behind_any_byte_for_both_ends(*, resets: bool) -> None:
    read: list[bytes] = []
    ends: list[str] = []

    async def client(_: object) -> None:
        reader, writer = await connect()
        try:
            while data := await reader.read(100):
                read.append(data)
        except ConnectionResetError:
            ends.append("reset")
        else:
            ends.append("end")
        writer.close()

    world, server, _ = begin(client)
    world.run(1.0)
    world.network.route("server", "client").breaks.append(Break(7, resets=resets))
    assert server.transport is not None
    for piece in (b"one,", b"two,", b"three"):
        server.transport.write(piece)
    world.run(5.0)
    arrived = b"".join(read)
    assert b"one,two".startswith(arrived) if resets else arrived == b"one,two"  # a reset may come before the read
    assert ends == ["reset" if resets else "end"]
    assert [type(each) for each in server.end] == [ConnectionResetError if resets else type(None)]
    assert world.network.connections("client", "server") == []


def test_a_connection_that_is_lost_looks_open_at_both_ends() -> None:
    async def client(_: object) -> None:
        reader, writer = await connect()
        world.timeline.call_at(1.0, world.network.connections("client", "server")[0].lose)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60.0):
                await reader.read(100)
        writer.write(b"hello")
        writer.close()

    world, server, process = begin(client)
    world.run(2.0)
    assert server.transport is not None
    server.transport.write(b"hello")
    world.run(100.0)
    assert (process.outcome, server.pieces, server.end) == ("exits", [], [])


def test_what_is_late_on_one_connection_is_overtaken_on_another() -> None:
    read: list[bytes] = []

    async def ask(number: int) -> None:
        _, writer = await connect()
        await asyncio.sleep(1.0 + number / 100)
        writer.write(b"%d" % number)
        writer.write(b"%d" % number)
        await asyncio.sleep(10.0)
        writer.close()

    async def client(_: object) -> None:
        await asyncio.gather(*map(ask, range(10)))

    world = World(1)

    class Shared(Server):
        def data_received(self, data: bytes) -> None:
            read.append(data)

    world.network.listen(world.loop("server"), "10.0.0.1", 80, Shared)
    draws = Random(1)
    world.network.route("client", "server").delays.append(lambda: draws.uniform(0.0, 1.0))
    Process(world, "client", client).start()
    world.run(60.0)
    arrived = b"".join(read)
    assert len(arrived) == 20
    assert list(arrived) != sorted(arrived)


def test_processes_that_listen_at_one_address_share_its_connections() -> None:
    async def client(_: object) -> None:
        for _ in range(20):
            _, writer = await connect()
            writer.write(b"x")
            writer.close()
            await writer.wait_closed()

    world, servers = World(1), [Server(), Server()]
    loops = [world.loop("first"), world.loop("second")]
    for loop, server in zip(loops, servers, strict=True):
        world.network.listen(loop, "10.0.0.1", 80, partial(lambda each: each, server))
    process = Process(world, "client", client)
    process.start()
    world.run(10.0)
    assert [len(server.pieces) > 2 for server in servers] == [True, True]
    loops[0].kill()
    seen = len(servers[0].pieces)
    process.start()
    world.run(20.0)
    assert len(servers[0].pieces) == seen
    assert process.outcome == "exits"

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World


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

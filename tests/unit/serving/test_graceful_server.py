"""Real connections to a server that is told to stop."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from extender_service.serving.browsers import BrowserGuard
from extender_service.serving.connection_limits import ConnectionLimits, LimitedConnections
from extender_service.serving.graceful_server import GracefulServer
from extender_service.serving.refusals import Refusals
from extender_service.serving.shutdown import Shutdown

REQUEST = b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{}"


class Watched(GracefulServer):
    """Calls `when_looking` as it begins to look for connections that it can close."""

    when_looking: Callable[[], None] | None = None

    def _connections(self) -> Iterator[HttpToolsProtocol]:
        if self.when_looking is not None:
            self.when_looking()
        return super()._connections()


class Stopping:
    """A server, its callers, and the calls that wait to be let go on."""

    def __init__(self, shutdown: Shutdown) -> None:
        config = uvicorn.Config(self._app, interface="asgi3", proxy_headers=False, lifespan="off", log_config=None)
        connections = LimitedConnections(ConnectionLimits(), Refusals())
        self.server = Watched(config, connections, BrowserGuard("127.0.0.1"), shutdown)
        self._shutdown = shutdown
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.serving = asyncio.create_task(self.server.serve(sockets=[self.listener]))
        self._writers: list[asyncio.StreamWriter] = []
        self._port: int = self.listener.getsockname()[1]

    async def connect(self) -> "Caller":
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        return Caller(reader, writer)

    def stop(self) -> None:
        if not self._shutdown.is_told:  # a second signal would end the tests
            os.kill(os.getpid(), signal.SIGTERM)

    async def end(self) -> None:
        self.stop()
        await self.serving
        await self.server.hang_up()
        for writer in self._writers:
            writer.close()

    async def _app(self, _scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await self.may_go_on.wait()
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes = REQUEST) -> None:
        self._writer.write(data)

    async def answer(self) -> str:
        """What is answered: kept, if the connection is, or last; closed where none comes."""
        head = b""
        while line := await self._reader.readline():
            head += line
            if line == b"\r\n":
                assert await self._reader.readexactly(2) == b"ok"
                return "last" if b"connection: close\r\n" in head else "kept"
        assert head == b""
        return "closed"

    async def call(self) -> str:
        self.send()
        return await self.answer()


@asynccontextmanager
async def stopping(delay_seconds: float = 0.0, grace_seconds: float = 20.0) -> AsyncIterator[Stopping]:
    shutdown = Shutdown(delay_seconds, grace_seconds)
    with shutdown.signals(lambda: None):
        world = Stopping(shutdown)
        try:
            async with asyncio.timeout(20):
                yield world
        finally:
            await world.end()


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(test())


def test_for_the_delay_all_are_answered_and_told_to_connect_anew() -> None:
    async def calls() -> None:
        async with stopping(delay_seconds=2.0) as world:
            known, idle = await world.connect(), await world.connect()
            assert [await known.call(), await known.call(), await idle.call()] == ["kept", "kept", "kept"]
            world.stop()
            while not world.server.should_exit:
                await asyncio.sleep(0.01)
            newcomer = await world.connect()
            assert [await newcomer.call(), await known.call()] == ["last", "last"]
            assert [await newcomer.answer(), await known.answer()] == ["closed", "closed"]
            assert not world.serving.done()
            assert await idle.answer() == "closed"
            await world.serving
            with pytest.raises(OSError, match=r"."):
                await world.connect()

    run(calls)


def test_a_call_under_way_is_answered_and_a_connection_without_one_closed() -> None:
    async def calls() -> None:
        async with stopping() as world:
            busy, idle, fresh = await world.connect(), await world.connect(), await world.connect()
            assert await idle.call() == "kept"
            world.may_go_on.clear()
            busy.send()
            await asyncio.sleep(0.1)
            world.stop()
            assert [await idle.answer(), await fresh.answer()] == ["closed", "closed"]
            assert not world.serving.done()
            world.may_go_on.set()
            assert [await busy.answer(), await busy.answer()] == ["last", "closed"]

    run(calls)


@pytest.mark.parametrize("here", [1, 30, len(REQUEST) - 1], ids=["a byte", "half a head", "half a body"])
@pytest.mark.parametrize("calls_before", [0, 1])
def test_a_request_that_is_half_here_is_read_and_answered(here: int, calls_before: int) -> None:
    async def calls() -> None:
        async with stopping() as world:
            caller = await world.connect()
            for _ in range(calls_before):
                assert await caller.call() == "kept"
            caller.send(REQUEST[:here])
            await asyncio.sleep(0.1)
            world.stop()
            await asyncio.sleep(0.5)
            caller.send(REQUEST[here:])
            assert [await caller.answer(), await caller.answer()] == ["last", "closed"]

    run(calls)


def test_a_request_that_comes_as_connections_are_closed_is_answered() -> None:
    async def calls() -> None:
        async with stopping() as world:
            callers = [await world.connect() for _ in range(20)]
            assert {await caller.call() for caller in callers} == {"kept"}

            def send_all() -> None:
                world.server.when_looking = None
                for caller in callers:
                    caller.send()

            world.stop()
            await asyncio.sleep(0.2)  # now it tells callers, or has told them, and lingers
            world.server.when_looking = send_all
            assert [await caller.answer() for caller in callers] == ["last"] * 20

    run(calls)


def test_what_does_not_finish_in_time_is_hung_up_on() -> None:
    async def calls() -> None:
        async with stopping(grace_seconds=1.0) as world:
            caller = await world.connect()
            world.may_go_on.clear()
            caller.send()
            await asyncio.sleep(0.1)
            world.stop()
            await world.serving
            assert len(world.server.server_state.tasks) == 1
            await world.server.hang_up()
            assert await caller.answer() == "closed"

    run(calls)

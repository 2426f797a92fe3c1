import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from extender_service.kube.api_errors import SilentError, UnreachableError
from extender_service.kube.connection import pool as connections_module
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.http_connection import HttpConnection
from extender_service.kube.connection.pool import ConnectionPool
from extender_service.kube.credentials.identity import Identity
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.resources.api_resources import PODS
from tests.support.clock import Clock
from tests.support.servers.http_server import Request, Response, http_server
from tests.support.servers.kubeconfig_files import write_kubeconfig

ANYONE = Identity()


class Server:
    """Answers each request, once it may; `connections` are those over which they came, in order."""

    def __init__(self) -> None:
        self.connections: list[object] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, request: Request, response: Response) -> None:
        # The task itself: the id of one that has ended can be that of the next.
        self.connections.append(asyncio.current_task())
        await self.may_answer.wait()
        await response.send_json(200, {"metadata": {"name": "p"}})


async def answer_of(http: HttpConnection) -> int:
    """Send a request and return the status of its answer."""
    if not http.is_open:
        await http.open(20.0)
    http.send(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n", 60.0)
    status = await http.head()
    await http.body(1000)
    return status


class World:
    """A pool of connections to a server; time passes only as a test says, except for what is being opened."""

    def __init__(self, server: Server, pool: ConnectionPool, clock: Clock) -> None:
        self.server = server
        self.pool = pool
        self.clock = clock

    async def get(self, *, at_once: bool = False) -> None:
        with await self.pool.lend(ANYONE, at_once=at_once) as http:
            assert await answer_of(http) == 200

    async def get_together(self, count: int) -> None:
        """Send so many requests, and have them answered once all have come."""
        self.server.may_answer.clear()
        before = len(self.server.connections)
        async with asyncio.TaskGroup() as requests:
            for _ in range(count):
                requests.create_task(self.get())
            await until(lambda: len(self.server.connections) == before + count)
            self.server.may_answer.set()


@asynccontextmanager
async def pool_of(server: Server) -> AsyncIterator[World]:
    clock = Clock()
    async with http_server(server) as url:
        pool = ConnectionPool(load_credentials(master=url), clock=clock)
        try:
            yield World(server, pool, clock)
        finally:
            await pool.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.001)


def run(test: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        async with pool_of(Server()) as world:
            await test(world)

    asyncio.run(main())


def test_a_request_that_hangs_holds_up_no_other() -> None:
    async def test(world: World) -> None:
        world.server.may_answer.clear()
        async with asyncio.TaskGroup() as requests:
            for _ in range(20):
                requests.create_task(world.get())
            await until(lambda: len(world.server.connections) == 20)
            assert len(set(world.server.connections)) == 20
            world.server.may_answer.set()

    run(test)


def test_the_connection_that_was_given_back_last_is_used_first_and_those_left_idle_are_closed() -> None:
    async def test(world: World) -> None:
        await world.get_together(10)
        for _ in range(13):
            world.clock.pass_seconds(5)
            await world.get()
        assert len(set(world.server.connections[10:])) == 1
        # Those that were idle for a minute are closed by now, so that as many requests open as many connections.
        await world.get_together(10)
        assert len(set(world.server.connections)) == 19

    run(test)


def test_many_requests_of_which_none_hangs_share_as_many_connections_as_keep_a_server_busy() -> None:
    async def test(world: World) -> None:
        async with asyncio.TaskGroup() as requests:
            for _ in range(500):
                requests.create_task(world.get())
        assert len(world.server.connections) == 500
        assert len(set(world.server.connections)) <= 32

    run(test)


def test_more_connections_than_keep_a_server_busy_are_opened_once_nothing_is_answered() -> None:
    async def test(world: World) -> None:
        world.server.may_answer.clear()
        async with asyncio.TaskGroup() as requests:
            for _ in range(50):
                requests.create_task(world.get())
            await until(lambda: len(world.server.connections) == 32)
            await asyncio.sleep(0.1)
            assert len(world.server.connections) == 32
            world.clock.pass_seconds(0.06)
            await until(lambda: len(world.server.connections) == 50)
            world.server.may_answer.set()

    run(test)


@pytest.mark.parametrize(("seconds", "hang"), [(0.2, False), (0.3, True)])
def test_requests_that_hang_hold_up_no_other_while_some_are_answered(seconds: float, hang: bool) -> None:
    async def test(world: World) -> None:
        async def hold() -> None:
            with await world.pool.lend(ANYONE, at_once=True):
                await asyncio.sleep(3600)

        held = [asyncio.create_task(hold()) for _ in range(32)]
        await asyncio.sleep(0)
        world.clock.pass_seconds(seconds)
        await world.get(at_once=True)  # is answered
        held.append(asyncio.create_task(hold()))  # takes its connection
        await asyncio.sleep(0)
        get = asyncio.create_task(world.get())
        await asyncio.wait([get], timeout=20 if hang else 0.2)
        assert get.done() == hang
        for task in (*held, get):
            task.cancel()
        await asyncio.gather(*held, get, return_exceptions=True)

    run(test)


@asynccontextmanager
async def unanswered_handshakes(folder: Path) -> AsyncIterator[tuple[ConnectionPool, list[asyncio.StreamWriter]]]:
    """A pool of connections to a server that answers no TLS handshake, and the connections that it accepted."""
    accepted: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    cluster = {"server": url, "insecure-skip-tls-verify": True}
    pool = ConnectionPool(load_credentials(write_kubeconfig(folder / "config", cluster=cluster)))
    try:
        yield pool, accepted
    finally:
        await pool.close()
        server.close()
        for writer in accepted:
            writer.transport.abort()


async def get_over(pool: ConnectionPool, *, at_once: bool = False) -> None:
    with await pool.lend(ANYONE, at_once=at_once) as http:
        await answer_of(http)


def test_few_connections_are_opened_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "_OPENING_SECONDS", 3600.0)

    async def main() -> None:
        async with unanswered_handshakes(tmp_path) as (pool, accepted):
            requests = [asyncio.create_task(get_over(pool)) for _ in range(20)]
            await until(lambda: len(accepted) == 4)
            await asyncio.sleep(0.02)
            assert len(accepted) == 4
            # One that must not wait does not; one that fails makes room for another, and so does one that is cancelled.
            requests.append(asyncio.create_task(get_over(pool, at_once=True)))
            await until(lambda: len(accepted) == 5)
            accepted[4].transport.abort()
            accepted[0].transport.abort()
            await until(lambda: len(accepted) == 6)
            for request in requests:  # also those that wait
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)
            assert len(accepted) < 10

    asyncio.run(main())


def test_a_handshake_that_is_not_answered_holds_up_no_other_for_long(tmp_path: Path) -> None:
    async def main() -> None:
        async with unanswered_handshakes(tmp_path) as (pool, accepted):
            requests = [asyncio.create_task(get_over(pool)) for _ in range(13)]
            await until(lambda: len(accepted) == 13)
            for request in requests:
                request.cancel()
            await asyncio.gather(*requests, return_exceptions=True)

    asyncio.run(main())


def test_requests_get_connections_in_their_order_and_one_that_is_cancelled_keeps_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections_module, "_MOST_OPENING", 1)
    monkeypatch.setattr(connections_module, "_OPENING_SECONDS", 3600.0)

    async def test(world: World) -> None:
        came: list[int] = []

        async def take(number: int) -> None:
            with await world.pool.lend(ANYONE):
                came.append(number)

        with await world.pool.lend(ANYONE) as http:  # which is not opened before it is used
            waiting = [asyncio.create_task(take(number)) for number in range(4)]
            await asyncio.sleep(0)
            waiting[1].cancel()
            await answer_of(http)
        await waiting[0]
        # What it was given just before it is cancelled goes to the next.
        with await world.pool.lend(ANYONE):
            pass
        await asyncio.gather(waiting[2], waiting[3])
        assert came == [0, 2, 3]

    run(test)


def test_closing_fails_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections_module, "_MOST_OPENING", 1)
    monkeypatch.setattr(connections_module, "_OPENING_SECONDS", 3600.0)

    async def test(world: World) -> None:
        with await world.pool.lend(ANYONE):
            waiting = asyncio.create_task(world.get())
            await asyncio.sleep(0)
            await world.pool.close()
            with pytest.raises(UnreachableError, match="closed"):
                await waiting

    run(test)


def test_after_one_has_fallen_silent_none_is_used_that_was_silent_for_as_long() -> None:
    async def test(world: World) -> None:
        await world.get_together(3)
        with suppress(SilentError), await world.pool.lend(ANYONE):
            world.clock.pass_seconds(10)
            await world.get()
            raise SilentError("nothing came", 5.0)
        heard = world.server.connections[-1]
        await world.get_together(2)
        assert heard in world.server.connections[4:]
        assert len(set(world.server.connections)) == 4

    run(test)


def test_what_is_under_way_when_another_falls_silent_may_end() -> None:
    async def test(world: World) -> None:
        world.server.may_answer.clear()
        under_way = asyncio.create_task(world.get())
        await until(lambda: len(world.server.connections) == 1)
        with pytest.raises(SilentError), await world.pool.lend(ANYONE):
            raise SilentError("nothing came", 60.0)
        world.server.may_answer.set()
        await under_way

    run(test)


def test_what_fails_in_other_ways_costs_no_connections() -> None:
    async def test(world: World) -> None:
        await world.get()
        with suppress(UnreachableError), await world.pool.lend(ANYONE):
            raise UnreachableError("cut")
        await world.get()
        first, second = world.server.connections
        assert first is second

    run(test)


def test_a_request_after_a_silent_watch_goes_over_a_new_connection() -> None:
    async def main() -> None:
        server = Server()

        async def handler(request: Request, response: Response) -> None:
            if "watch" in request.query:
                await response.start_chunks()
                await asyncio.sleep(3600)
            await server(request, response)

        async with http_server(handler) as url, KubeClient(load_credentials(master=url)) as client:
            await client.get(PODS, "ns", "p")
            async with client.watch(PODS, "1"):
                await client.get(PODS, "ns", "p")
            with pytest.raises(SilentError):
                async with client.watch(PODS, "1", idle_seconds=0.05) as events:
                    [event async for event in events]
            await client.get(PODS, "ns", "p")
        assert len(set(server.connections)) == 3

    asyncio.run(main())

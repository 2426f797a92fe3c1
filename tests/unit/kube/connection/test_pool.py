import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from extender_service.kube.api_errors import SilentError, UnreachableError
from extender_service.kube.api_resources import PODS
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.pool import Connections
from extender_service.kube.credentials.identity import Identity
from extender_service.kube.credentials.lookup import load_credentials
from tests.unit.kube.http_server import Request, Response, http_server

SOMEBODY = Identity()


class Server:
    """Answers each request, once it may; tells over which connections they came."""

    def __init__(self) -> None:
        self.connections: list[object] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, request: Request, response: Response) -> None:
        # The task itself: the id of one that has ended can be that of the next.
        self.connections.append(asyncio.current_task())
        await self.may_answer.wait()
        await response.send_json(200, {"metadata": {"name": "p"}})


@asynccontextmanager
async def connections_to(server: Server) -> AsyncIterator[tuple[Connections, str]]:
    async with http_server(server) as url:
        connections = Connections(load_credentials(master=url))
        try:
            yield connections, url
        finally:
            await connections.close()


async def falls_silent(connections: Connections) -> None:
    with pytest.raises(SilentError):
        async with connections.showing(SOMEBODY):
            raise SilentError("nothing came")


def run(test: Callable[[Server, Connections, str], Awaitable[None]]) -> None:
    async def main() -> None:
        server = Server()
        async with connections_to(server) as (connections, url):
            await test(server, connections, url)

    asyncio.run(main())


def test_after_one_has_fallen_silent_no_other_is_used_again() -> None:
    async def test(server: Server, connections: Connections, url: str) -> None:
        for _ in range(2):
            async with connections.showing(SOMEBODY) as http:
                await http.get(url)
        await falls_silent(connections)
        async with connections.showing(SOMEBODY) as http:
            await http.get(url)
        first, second, third = server.connections
        assert first == second != third

    run(test)


def test_what_is_under_way_over_connections_that_are_given_up_may_end() -> None:
    async def test(server: Server, connections: Connections, url: str) -> None:
        async with connections.showing(SOMEBODY) as http:
            server.may_answer.clear()
            under_way = asyncio.create_task(http.get(url))
            while not server.connections:
                await asyncio.sleep(0.001)
            await falls_silent(connections)
            await falls_silent(connections)
            server.may_answer.set()
            assert (await under_way).status_code == 200
        # Then it is closed.
        with pytest.raises(RuntimeError, match="closed"):
            await http.get(url)

    run(test)


def test_what_fails_in_other_ways_costs_no_connections() -> None:
    async def test(server: Server, connections: Connections, url: str) -> None:
        seen: list[httpx.AsyncClient] = []
        for _ in range(2):
            with suppress(UnreachableError):
                async with connections.showing(SOMEBODY) as http:
                    seen.append(http)
                    raise UnreachableError("cut")
        assert seen[0] is seen[1]

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

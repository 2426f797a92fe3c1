"""A request that another one holds up is reported, and so is a program that lists again and again."""

import asyncio
from contextlib import suppress

import pytest

from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.turns import Turns
from extender_service.kube.credentials.lookup import load_credentials
from tests.worlds.api_server.messages import Request, Response
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.requests import RequestsApart, WatchesPaced
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.http_face import Served
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.served_model import ApiServers
from tests.worlds.simulation.world import World

NODES = "/api/v1/nodes"


@pytest.mark.parametrize("turns", [1, 2])
def test_one_request_that_waits_for_another_is_reported(turns: int) -> None:
    world = World(1)
    servers = ApiServers(world, "api-server", "10.0.0.1", MachineClocks(world.timeline))

    async def program(_: object) -> None:
        async with KubeClient(load_credentials(master=servers.url)) as client:
            client._reads = Turns(turns)
            with suppress(KubeError):
                await asyncio.gather(*(client.exchange("GET", f"{NODES}/{name}") for name in "ab"))

    process = Process(world, "replica-0", program)
    observed = Observed(world, servers.model, [process])
    RequestsApart(observed)
    servers.servers["api-server"].loop.stops += 1  # it hangs
    process.start()
    world.run(5.0)
    text = "4.000000 requests apart: replica-0 has 1 requests that wait, though only 1 are under way"
    assert observed.violations.lines() == ([text] if turns == 1 else [])
    servers.servers["api-server"].loop.stops -= 1
    world.run(10.0)
    assert process.outcome == "exits"


def test_lists_again_and_again_are_reported() -> None:
    world = World(1)
    observed = Observed(world, ApiServers(world, "api-server", "10.0.0.1", MachineClocks(world.timeline)).model, [])
    rule = WatchesPaced(observed)
    for number in range(300):
        world.timeline.now = number * 0.11
        rule._count(Served("replica-0", world.timeline.now, Request("GET", NODES), Response(410, b"")))
    assert observed.violations.lines() == []
    for _ in range(120):
        rule._count(Served("replica-0", world.timeline.now, Request("GET", f"{NODES}/a"), Response(200, b"")))
        rule._count(Served("replica-0", world.timeline.now, Request("GET", NODES), Response(410, b"")))
    text = f"replica-0 lists and watches {NODES} more than 100 times in 10 s"
    assert observed.violations.lines() == [f"32.890000 watches paced: {text}"]

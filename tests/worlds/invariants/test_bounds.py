"""A program that keeps more than it has to do is reported."""

import asyncio
from random import Random

import pytest

from tests.worlds.api_server.server import ApiServer
from tests.worlds.invariants.bounds import WithinBounds
from tests.worlds.invariants.insides import scheduler_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.scenarios import Scenario, ScheduledCluster
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World


def tasks_reported(count: int) -> list[str]:
    """What is said of a program with so many tasks, in a cluster without pods."""

    async def program(_: object) -> None:
        await asyncio.gather(*(asyncio.sleep(100.0) for _ in range(count)))

    world = World(1)
    process = Process(world, "replica-0", program)
    observed = Observed(world, ApiServer(MachineClocks(world.timeline).wall, Random(1)), [process])
    WithinBounds(observed)
    process.start()
    world.run(11.0)
    return observed.violations.lines()


def test_too_many_tasks_are_reported() -> None:
    assert tasks_reported(90) == []
    assert tasks_reported(100) == ["10.000000 within bounds: replica-0 has 101 tasks, more than 100"]


@pytest.mark.parametrize("leaks", [False, True])
def test_nominations_of_pods_that_never_were_are_reported(leaks: bool) -> None:
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.4, pods=3))

    def leak() -> None:
        insides = scheduler_insides(cluster.replicas[0])
        assert insides is not None
        insides.queue.nominator._node_of.update((f"uid-{number}", "node-0") for number in range(4))

    if leaks:
        cluster.world.timeline.call_at(19.0, leak)
    cluster.run()
    found = [line for line in cluster.holds.observed.violations.lines() if "within bounds" in line]
    assert found == (["20.000000 within bounds: replica-0 has 4 nominations, more than 3"] if leaks else [])

"""A program that keeps more than it has to do is reported."""

import asyncio
from random import Random

from tests.worlds.api_server.kinds import PODS
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


def nominations_reported(count: int, deletes: bool = False, cuts: bool = False) -> list[str]:
    """What is said of so many nominations where there were three pods; one may be deleted, cut off from the watch."""
    cluster = ScheduledCluster(Scenario(seed=1, minutes=0.4, pods=3))

    def nominate() -> None:
        insides = scheduler_insides(cluster.replicas[0])
        assert insides is not None
        insides.queue.nominator._node_of.update((f"uid-{number}", "node-0") for number in range(count))

    def delete() -> None:
        etcd = cluster.api_servers.model.etcd
        etcd.delete(PODS, next(etcd.all(PODS)).key)

    timeline = cluster.world.timeline
    if cuts:
        timeline.call_at(18.0, lambda: cluster.world.network.cut("replica-0", "api-server"))
    if deletes:
        timeline.call_at(18.5, delete)
    timeline.call_at(19.5, nominate)
    cluster.run()
    return [line for line in cluster.holds.observed.violations.lines() if "within bounds" in line]


def test_nominations_of_pods_that_never_were_are_reported() -> None:
    assert nominations_reported(0) == []
    assert nominations_reported(4) == ["20.000000 within bounds: replica-0 has 4 nominations, more than 3"]


def test_a_pod_counts_until_the_watch_shows_that_it_has_gone() -> None:
    assert nominations_reported(4, deletes=True, cuts=True) == []
    assert nominations_reported(4, deletes=True) == [
        "20.000000 within bounds: replica-0 has 4 nominations, more than 3"
    ]

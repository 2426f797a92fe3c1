import asyncio

from tests.worlds.faults.kinds import ALL_KINDS
from tests.worlds.faults.plan import Fault, carry_out
from tests.worlds.faults.surroundings import Surroundings
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World


async def _tick(_: object) -> None:
    while True:
        await asyncio.sleep(1.0)


def test_of_two_freezes_at_a_time_the_later_end_thaws() -> None:
    world = World(1)
    process = Process(world, "replica-0", _tick)
    process.start()
    plan = (Fault(1.0, "freeze", "replica-0", seconds=5.0), Fault(2.0, "freeze", "replica-0", seconds=1.0))
    carry_out(plan, ALL_KINDS, Surroundings(world, {"replica-0": process}, "api-server"))
    frozen = []
    for at in (0.5, 1.5, 3.5, 6.5):
        world.run(at)
        frozen.append(process.loop.is_frozen)
    assert frozen == [False, True, True, False]


def test_what_was_frozen_when_it_was_killed_is_not_frozen_when_it_is_started_again() -> None:
    world = World(1)
    process = Process(world, "replica-0", _tick)
    process.on_end = lambda: world.timeline.call_later(1.0, process.start)
    process.start()
    plan = (Fault(1.0, "freeze", "replica-0", seconds=9.0), Fault(2.0, "kill", "replica-0"))
    carry_out(plan, ALL_KINDS, Surroundings(world, {"replica-0": process}, "api-server"))
    world.run(5.0)
    assert (process.outcome, process.loop.is_frozen) == (None, False)
    world.run(20.0)
    assert process.outcome is None

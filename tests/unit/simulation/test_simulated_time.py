import asyncio

import pytest

from extender_service.simulation.simulated_time import PluginSleeps, SimulatedTime
from tests.support.event_loop import in_event_loop


@in_event_loop
async def test_waits_end_in_the_order_of_their_times() -> None:
    time = SimulatedTime()
    ended: list[tuple[str, float]] = []

    async def wait(name: str, seconds: float) -> None:
        await time.sleep(seconds)
        ended.append((name, time()))

    tasks = [asyncio.create_task(wait("long", 30)), asyncio.create_task(wait("short", 1))]
    await asyncio.sleep(0)
    for _ in range(2):
        time.advance()
        await asyncio.sleep(0)
    assert ended == [("short", 1.0), ("long", 30.0)]
    await asyncio.gather(*tasks)


@in_event_loop
async def test_a_wait_that_was_cancelled_does_not_let_time_pass() -> None:
    time = SimulatedTime()
    cancelled = asyncio.create_task(time.sleep(5))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    time.advance()
    assert time() == 0.0


@in_event_loop
async def test_time_passes_without_waits_and_never_goes_back() -> None:
    time = SimulatedTime()
    await time.sleep(0)
    time.pass_seconds(2.5)
    time.pass_seconds(-1)
    assert time() == 2.5


@in_event_loop
async def test_it_is_known_how_many_tasks_of_plugins_wait() -> None:
    time = SimulatedTime()
    sleeps = PluginSleeps(time)
    tasks = [asyncio.create_task(sleeps.sleep(seconds)) for seconds in (1, 30)]
    await asyncio.sleep(0)
    assert len(sleeps) == 2
    time.advance()
    await asyncio.sleep(0)
    assert (len(sleeps), time()) == (1, 1.0)
    time.advance()
    await asyncio.gather(*tasks)
    assert (len(sleeps), time()) == (0, 30.0)


@pytest.mark.parametrize("seconds", [0, 30])
@in_event_loop
async def test_at_the_end_tasks_that_wait_are_cancelled_and_so_are_those_that_come_to(seconds: float) -> None:
    sleeps = PluginSleeps(SimulatedTime())
    before = asyncio.create_task(sleeps.sleep(30))
    await asyncio.sleep(0)
    sleeps.end("it is over")
    after = asyncio.create_task(sleeps.sleep(seconds))
    for task in (before, after):
        with pytest.raises(asyncio.CancelledError, match="it is over"):
            await task
    assert len(sleeps) == 0

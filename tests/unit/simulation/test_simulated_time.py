import asyncio

from extender_service.simulation.simulated_time import SimulatedTime
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

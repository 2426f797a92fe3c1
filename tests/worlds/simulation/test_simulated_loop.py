import asyncio
import logging
import signal

import pytest

from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World


def test_an_hour_passes_at_once() -> None:
    world, loop = World(1), None
    woken: list[float] = []

    async def sleep(_: object) -> None:
        for _ in range(60):
            await asyncio.sleep(60.0)
            woken.append(world.timeline.now)

    Process(world, "sleeper", sleep).start()
    world.run(3700.0)
    assert loop is None
    assert len(woken) == 60
    assert woken[-1] == pytest.approx(3600.0, abs=0.1)


def test_a_process_lives_by_the_clock_of_its_machine() -> None:
    world = World(1)
    woken = {}

    def start(name: str, rate: float) -> None:
        async def sleep(_: object) -> None:
            await asyncio.sleep(100.0)
            woken[name] = world.timeline.now

        Process(world, name, sleep, MachineClocks(world.timeline, rate=rate)).start()

    start("fast", 1.1)
    start("slow", 0.9)
    world.run(200.0)
    assert woken == {"fast": pytest.approx(90.909, abs=0.01), "slow": pytest.approx(111.111, abs=0.01)}


def test_what_is_due_in_a_frozen_process_waits_until_it_goes_on() -> None:
    world = World(1)
    seen: list[tuple[float, float]] = []

    async def tick(machine: object) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            await asyncio.sleep(1.0)
            seen.append((world.timeline.now, loop.time()))

    process = Process(world, "process", tick, MachineClocks(world.timeline, uptime=0.0))
    process.start()
    world.timeline.call_at(1.5, process.freeze)
    world.timeline.call_at(10.0, process.thaw)
    world.run(20.0)
    assert [round(at) for at, _ in seen] == [1, 10, 11]
    assert [round(by_clock) for _, by_clock in seen] == [1, 10, 11]  # its clocks went on


def test_what_a_killed_process_was_about_to_do_is_never_done() -> None:
    world = World(1)
    done: list[str] = []

    async def work(_: object) -> None:
        try:
            await asyncio.sleep(10.0)
        finally:
            done.append("cleaned up")

    process = Process(world, "process", work)
    process.start()
    world.timeline.call_at(5.0, process.kill)
    world.run(20.0)
    assert (process.outcome, done) == ("was killed", [])


@pytest.mark.parametrize("handles", [True, False])
def test_a_signal_ends_a_process_that_does_not_handle_it(handles: bool) -> None:
    world = World(1)

    async def work(_: object) -> None:
        told = asyncio.Event()
        if handles:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
        await told.wait()

    process = Process(world, "process", work)
    process.start()
    world.timeline.call_at(5.0, lambda: process.signal(signal.SIGTERM))
    world.run(20.0)
    assert process.outcome == ("exits" if handles else "ended by signal 15")


def test_a_job_for_a_thread_runs_in_the_loop() -> None:
    world = World(1)
    results: list[int] = []

    async def work(_: object) -> None:
        results.append(await asyncio.to_thread(sum, (1, 2)))
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(divmod, 1, 0)

    process = Process(world, "process", work)
    process.start()
    world.run(1.0)
    assert (results, process.outcome) == ([3], "exits")


def test_a_group_cancels_its_tasks_in_the_order_in_which_they_were_made() -> None:
    world = World(1)
    cancelled: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise

    async def work(_: object) -> None:
        group = asyncio.create_task(in_group())
        await asyncio.sleep(1.0)
        group.cancel()

    async def in_group() -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(50):
                tasks.create_task(wait(number))

    Process(world, "process", work).start()
    world.run(2.0)
    assert sorted(cancelled) == list(range(50))
    assert cancelled.index(0) < cancelled.index(1) < cancelled.index(2)


def test_what_a_callback_fails_with_is_kept_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1)

    async def work(_: object) -> None:
        asyncio.get_running_loop().call_soon(divmod, 1, 0)
        await asyncio.sleep(1.0)

    process = Process(world, "process", work)
    process.start()
    with caplog.at_level(logging.ERROR):
        world.run(2.0)
    assert [type(context["exception"]) for context in process.loop.failures] == [ZeroDivisionError]
    assert "Exception in callback" in caplog.text

import asyncio
from dataclasses import replace

import pytest

from tests.worlds.faults.plan import Fault
from tests.worlds.faults.trial import Trial


def ticks(trial: Trial, seconds: float = 20.0) -> list[tuple[float, float, float]]:
    """When a program ticked that sleeps for a second at a time: by the world, by its clock, by its wall clock."""
    seen: list[tuple[float, float, float]] = []
    clocks = trial.program.clocks
    begun = clocks.monotonic(), clocks.wall()

    async def tick() -> None:
        while True:
            await asyncio.sleep(1.0)
            now = clocks.monotonic() - begun[0], clocks.wall() - begun[1]
            seen.append((round(trial.world.timeline.now, 1), round(now[0], 1), round(now[1], 1)))

    trial.run(tick, seconds)
    return seen


def test_of_two_freezes_at_a_time_the_later_end_thaws() -> None:
    seen = ticks(Trial(Fault(1.5, "freeze", "replica-0", seconds=5.0), Fault(2.0, "freeze", "replica-0", seconds=1.0)))
    assert seen[:3] == [(1.0, 1.0, 1.0), (6.5, 6.5, 6.5), (7.5, 7.5, 7.5)]


def test_what_was_frozen_when_it_was_killed_is_not_frozen_when_it_is_started_again() -> None:
    trial = Trial(Fault(1.0, "freeze", "replica-0", seconds=9.0), Fault(2.0, "kill", "replica-0"))
    trial.program.on_end = lambda: trial.world.timeline.call_later(1.0, trial.program.start)
    assert [at for at, _, _ in ticks(trial)][:2] == [4.0, 5.0]


def test_a_machine_that_sleeps_has_one_clock_that_stops() -> None:
    assert ticks(Trial(Fault(1.5, "sleep", "replica-0", seconds=10.0)))[:3] == [
        (1.0, 1.0, 1.0),
        (12.0, 2.0, 12.0),
        (13.0, 3.0, 13.0),
    ]


def test_nothing_else_happens_to_a_machine_that_sleeps() -> None:
    faults = [Fault(2.0, kind, "replica-0") for kind in ("kill", "terminate", "kill-at-work", "stall")]
    trial = Trial(
        Fault(1.5, "sleep", "replica-0", seconds=10.0), *faults, Fault(3.0, "freeze", "replica-0", seconds=30)
    )
    assert ticks(trial)[-1] == (19.0, 9.0, 19.0)


@pytest.mark.parametrize(
    ("kind", "amount", "third"),
    [("set-wall-clock", -60.0, (3.0, 3.0, -57.0)), ("drift", 1.08, (2.9, 3.0, 3.0)), ("stall", 4.0, (7.0, 7.0, 7.0))],
)
def test_clocks_jump_and_drift_and_a_program_stalls(kind: str, amount: float, third: tuple[float, ...]) -> None:
    seconds = 10.0 if kind == "drift" else 0.0
    assert ticks(Trial(Fault(2.0, kind, "replica-0", seconds, amount)))[2] == third


def test_a_program_is_killed_between_any_two_callbacks() -> None:
    left = []
    for callbacks in range(1, 8):
        reached: list[int] = []

        async def work(reached: list[int] = reached) -> None:
            await asyncio.sleep(2.0)
            for number in range(10):
                reached.append(number)
                await asyncio.sleep(0.0)

        trial = Trial(Fault(1.0, "kill-at-work", "replica-0", amount=callbacks))
        trial.run(work)
        assert trial.program.outcome == "was killed"
        left.append(len(reached))
    assert left == [0, 1, 2, 3, 4, 5, 6]


def test_a_program_without_a_handler_ends_when_it_is_terminated() -> None:
    trial = Trial(Fault(2.5, "terminate", "replica-0"))
    assert len(ticks(trial)) == 2
    assert trial.program.outcome == "ended by signal 15"


def test_a_program_freezes_between_two_callbacks_until_the_end_of_the_fault() -> None:
    fault = Fault(1.5, "freeze-at-work", "replica-0", seconds=10.0, amount=2.0)
    seen = ticks(Trial(fault), 30.0)
    assert 11.5 in [at for at, _, _ in seen]
    assert not [at for at, _, _ in seen if 3.5 < at < 11.5]
    seen = ticks(Trial(replace(fault, amount=1000.0)), 30.0)
    assert [at for at, _, _ in seen][:4] == [1.0, 2.0, 3.0, 4.0]

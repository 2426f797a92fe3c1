"""Faults of the product's programs and their machines."""

import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Final

from tests.worlds.faults.durations import some_seconds
from tests.worlds.faults.plan import End, Fault, FaultKind
from tests.worlds.faults.surroundings import Surroundings
from tests.worlds.simulation.process import Process

OnProcess = Callable[[Process], None]

_MOST_CALLBACKS: Final = 3000.0


def _kill(surroundings: Surroundings, fault: Fault) -> None:
    """End the process at once, as SIGKILL does."""
    program = surroundings.program(fault.target)
    if program.is_awake:
        program.kill()


def _kill_at_work(surroundings: Surroundings, fault: Fault) -> None:
    """End the process after `amount` more callbacks. So it ends between any two, and mostly while it has work."""
    program = surroundings.program(fault.target)
    if program.is_awake:
        program.loop.after_callbacks(int(fault.amount), program.kill)


def _terminate(surroundings: Surroundings, fault: Fault) -> None:
    """Send SIGTERM."""
    program = surroundings.program(fault.target)
    if program.is_awake:
        program.signal(signal.SIGTERM)


def _freeze(surroundings: Surroundings, fault: Fault) -> End | None:
    """Stop the process where it stands, as SIGSTOP does; its clocks go on."""
    return _hold(surroundings, fault, "freeze", Process.freeze, Process.thaw)


def _freeze_at_work(surroundings: Surroundings, fault: Fault) -> End | None:
    """Stop the process after `amount` more callbacks: between any two, and mostly while it has work."""
    program = surroundings.program(fault.target)
    if not program.is_awake:
        return None
    ends: list[End] = []

    def freeze() -> None:
        if surroundings.world.timeline.now < fault.until:
            ends.append(_freeze(surroundings, fault) or _do_nothing)

    def thaw() -> None:
        for end in ends:
            end()

    program.loop.after_callbacks(int(fault.amount), freeze)
    return thaw


def _do_nothing() -> None:
    """End what did not begin."""


def _sleep(surroundings: Surroundings, fault: Fault) -> End | None:
    """Let the machine sleep: the clock that never goes back stops, the wall clock goes on."""
    return _hold(surroundings, fault, "sleep", Process.fall_asleep, Process.wake)


def _hold(surroundings: Surroundings, fault: Fault, what: str, begin: OnProcess, end: OnProcess) -> End | None:
    program = surroundings.program(fault.target)
    if not program.is_awake:
        return None
    start = program.starts

    def stop() -> None:
        if program.starts == start and program.outcome is None:
            end(program)

    return surroundings.share(what, program.name, str(start), begin=partial(begin, program), end=stop)


def _stall(surroundings: Surroundings, fault: Fault) -> None:
    """Let one callback take `amount` seconds, as a busy processor does."""
    program = surroundings.program(fault.target)
    if program.is_awake:
        program.loop.stall(fault.amount)


def _set_wall_clock(surroundings: Surroundings, fault: Fault) -> None:
    """Set the wall clock ahead by `amount` seconds, or back."""
    surroundings.program(fault.target).clocks.set_wall(fault.amount)


def _drift(surroundings: Surroundings, fault: Fault) -> End:
    """Let the clocks run `amount` times as fast."""
    clocks = surroundings.program(fault.target).clocks
    clocks.change_rate(fault.amount)
    return partial(clocks.change_rate, 1 / fault.amount)


def _some_callbacks(random: Random) -> float:
    return float(int(_MOST_CALLBACKS ** random.random()))


def _past_a_lease(random: Random) -> float:
    """Draw a time in which another replica takes the lease."""
    return random.uniform(16.0, 40.0)


def _on_a_program(
    name: str,
    begin: Callable[[Surroundings, Fault], End | None],
    *,
    seconds: Callable[[Random], float] = lambda _: 0.0,
    amount: Callable[[Random], float] = lambda _: 0.0,
) -> FaultKind:
    return FaultKind(name, Surroundings.program_targets, begin, seconds, amount)


PROGRAM_FAULTS: Final = (
    _on_a_program("kill", _kill),
    _on_a_program("kill-at-work", _kill_at_work, amount=_some_callbacks),
    _on_a_program("terminate", _terminate),
    _on_a_program("freeze", _freeze, seconds=some_seconds),
    replace(
        _on_a_program("freeze-at-work", _freeze_at_work, seconds=_past_a_lease, amount=_some_callbacks),
        is_drawn=False,
    ),
    _on_a_program("sleep", _sleep, seconds=some_seconds),
    _on_a_program("stall", _stall, amount=lambda random: some_seconds(random) / 4),
    _on_a_program("set-wall-clock", _set_wall_clock, amount=lambda random: random.uniform(-60.0, 60.0)),
    _on_a_program("drift", _drift, seconds=some_seconds, amount=lambda random: random.uniform(0.97, 1.03)),
)

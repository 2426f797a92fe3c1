"""Faults of the product's programs and their machines."""

import signal
from collections.abc import Sequence
from random import Random

from tests.worlds.faults.plan import End, Fault, FaultKind
from tests.worlds.faults.surroundings import Surroundings


def some_seconds(random: Random) -> float:
    """Draw how long a fault lasts: less or more than time-outs and the duration of a lease."""
    return random.choice((0.5, 3.0, 12.0, 25.0)) * random.uniform(0.5, 1.5)


def programs(surroundings: Surroundings) -> Sequence[str]:
    """Return the names of the product's programs."""
    return list(surroundings.programs)


def _kill(surroundings: Surroundings, fault: Fault) -> None:
    program = surroundings.programs[fault.target]
    if program.outcome is None:
        program.kill()


def _terminate(surroundings: Surroundings, fault: Fault) -> None:
    program = surroundings.programs[fault.target]
    if program.outcome is None:
        program.signal(signal.SIGTERM)


def _freeze(surroundings: Surroundings, fault: Fault) -> End | None:
    program = surroundings.programs[fault.target]
    if program.outcome is not None:
        return None
    process = str(program.starts)
    if surroundings.hold("freeze", fault.target, process):
        program.freeze()

    def thaw() -> None:
        if surroundings.release("freeze", fault.target, process) and str(program.starts) == process:
            program.thaw()

    return thaw


def _stall(surroundings: Surroundings, fault: Fault) -> None:
    program = surroundings.programs[fault.target]
    if program.outcome is None:
        program.loop.stall(fault.amount)


def _set_wall_clock(surroundings: Surroundings, fault: Fault) -> None:
    surroundings.programs[fault.target].clocks.set_wall(fault.amount)


PROGRAM_FAULTS = (
    FaultKind("kill", programs, _kill),
    FaultKind("terminate", programs, _terminate),
    FaultKind("freeze", programs, _freeze, some_seconds),
    FaultKind("stall", programs, _stall, amount=lambda random: some_seconds(random) / 4),
    FaultKind("set-wall-clock", programs, _set_wall_clock, amount=lambda random: random.uniform(-60.0, 60.0)),
)

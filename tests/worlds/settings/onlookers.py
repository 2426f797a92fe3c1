"""People and programs that look into the product: a dump on SIGUSR2, and metrics."""

import signal
from collections.abc import Sequence
from functools import partial

from tests.worlds.invariants.insides import scheduler_insides, service_insides
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World

_SECONDS_BETWEEN_LOOKS = 40.0


class Onlookers:
    """Looks at a program now and then, at any that runs.

    Metrics are read by a call within the process, as `schedule` serves them over TLS, which is outside of worlds.
    """

    def __init__(self, world: World, programs: Sequence[Process]) -> None:
        self._world = world
        self._programs = programs
        self._random = world.random("onlookers")

    def start(self) -> None:
        """Begin."""
        pause = self._random.expovariate(1 / _SECONDS_BETWEEN_LOOKS)
        self._world.timeline.call_later(pause, self._look)

    def _look(self) -> None:
        self.start()
        program, asks_for_dump = self._random.choice(self._programs), self._random.random() < 0.5
        insides = scheduler_insides(program) or service_insides(program)
        if insides is None or not program.is_awake or program.loop.stops:
            return
        if asks_for_dump:
            program.signal(signal.SIGUSR2)
        else:
            self._world.trace.write(program.name, "has its metrics read")
            program.loop.call_soon(partial(_read_metrics, program))


def _read_metrics(program: Process) -> None:
    insides = scheduler_insides(program)
    if insides is not None:
        assert insides.metrics.exposition("")[0]
        assert [*insides.resources.exposition()]

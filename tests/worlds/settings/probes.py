"""Probes of a kubelet, which asks programs whether they are healthy."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from extender_service.observability.health import Check, run_checks
from tests.worlds.invariants.insides import scheduler_insides, service_insides
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World

_SECONDS_BETWEEN_PROBES: Final = 10.0


class Probes:
    """Asks each program for its /livez, by a call within the process, as `schedule` serves it over TLS.

    A program that stands still answers once it goes on, before it does anything else.
    """

    def __init__(self, world: World, programs: Sequence[Process]) -> None:
        self._world = world
        self._programs = programs

    def start(self) -> None:
        """Begin."""
        self._world.timeline.call_later(_SECONDS_BETWEEN_PROBES, self._probe)

    def _probe(self) -> None:
        self.start()
        for program in self._programs:
            insides = scheduler_insides(program) or service_insides(program)
            if insides is not None and program.is_awake:
                program.loop.call_soon(partial(_answer, insides.health.health))


def _answer(checks: Mapping[str, Check]) -> None:
    assert run_checks("livez", checks).text

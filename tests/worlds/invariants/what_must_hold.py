"""All that must hold in a world, always and in the end."""

from collections.abc import Callable, Sequence

from tests.worlds.api_server.server import ApiServer
from tests.worlds.invariants.bindings import BoundOnce
from tests.worlds.invariants.endings import FittingPodsBound
from tests.worlds.invariants.logs import NothingUnexpectedLogged
from tests.worlds.invariants.observed import Invariant, Observed
from tests.worlds.simulation.process import Process
from tests.worlds.simulation.world import World

_ALL: Sequence[Callable[[Observed], Invariant]] = (BoundOnce, NothingUnexpectedLogged, FittingPodsBound)


class WhatMustHold:
    """Make it before the world runs; `violations` says afterwards what did not hold."""

    def __init__(
        self, world: World, model: ApiServer, replicas: Sequence[Process], service: Process | None = None
    ) -> None:
        self._observed = Observed(world, model, replicas, service)
        self._invariants = [make(self._observed) for make in _ALL]
        self._has_ended = False

    def violations(self) -> list[str]:
        """Return a line for each violation, with the world's time. Call it once the world has ended."""
        if not self._has_ended:
            self._has_ended = True
            for invariant in self._invariants:
                invariant.at_end()
        return self._observed.violations.lines()

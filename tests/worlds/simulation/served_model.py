"""An API server in a world: a model behind HTTP, in a process of its own."""

import asyncio
import math
from collections.abc import Callable
from typing import Final, Protocol

from tests.worlds.api_server.messages import Answer, Request
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.http_face import HttpFace, Served
from tests.worlds.simulation.simulated_loop import SimulatedLoop
from tests.worlds.simulation.world import World

PORT: Final = 8080


class Model(Protocol):
    """An API server as a state machine, in seconds since 1970."""

    def handle(self, request: Request) -> Answer:
        """Carry out a request."""

    def due_at(self) -> float:
        """Return when `step` has something to do at the latest; infinite if it has not."""

    def step(self) -> None:
        """Do what is due."""


class ServedModel:
    """The process of an API server. `url` is where programs ask it; the others in the world call `ask`.

    `listeners` are called after each request of a program was carried out.
    """

    def __init__(self, world: World, model: Model, name: str, address: str, clocks: MachineClocks) -> None:
        """`clocks` must be those of the model."""
        self.url = f"http://{address}:{PORT}"
        self.listeners: list[Callable[[Served], None]] = []
        self.loop: SimulatedLoop = world.loop(name, clocks)
        self._model = model
        self._clocks = clocks
        self._timer: asyncio.TimerHandle | None = None
        random = world.random(f"answers of {name}")

        def accept() -> HttpFace:
            return HttpFace(self.ask, self.loop, random, world.trace, self._report)

        world.network.listen(self.loop, address, PORT, accept)

    def ask(self, request: Request) -> Answer:
        """Have the model carry out a request now."""
        answer = self._model.handle(request)
        self._plan()
        return answer

    def _report(self, served: Served) -> None:
        for listener in self.listeners:
            listener(served)

    def _step(self) -> None:
        self._model.step()
        self._plan()

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        seconds = self._model.due_at() - self._clocks.wall()
        self._timer = None if math.isinf(seconds) else self.loop.call_later(max(0.0, seconds), self._step)

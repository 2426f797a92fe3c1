"""API servers in a world: models behind HTTP, each in a process of its own, on one etcd and behind one address."""

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Final

from extender_service.config.release import OLDEST_MINOR
from tests.worlds.api_server.messages import Answer, Request
from tests.worlds.api_server.server import ApiServer
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.http_face import HttpFace, Served
from tests.worlds.simulation.simulated_loop import SimulatedLoop
from tests.worlds.simulation.world import World

PORT: Final = 8080
_LEAST_STEP_SECONDS: Final = 1.0
_MOST_STEP_SECONDS: Final = 60.0

# What a request goes through before the model: it is given what carries the request out, and returns the answer.
Gate = Callable[[Request, Callable[[], Answer]], Answer]


class ServedModel:
    """The process of an API server, which may be stopped and started. `url` is where programs ask it.

    `gates` are what requests go through, in order. `listeners` are called after each request of a program was carried
    out.
    """

    def __init__(self, world: World, model: ApiServer, name: str, address: str, clocks: MachineClocks) -> None:
        """It runs from the start. `clocks` must be those of the model."""
        self.url = f"http://{address}:{PORT}"
        self.name = name
        self.model = model
        self.gates: list[Gate] = []
        self.listeners: list[Callable[[Served], None]] = []
        self.loop: SimulatedLoop = world.loop(name, clocks)
        self._world = world
        self._address = address
        self._clocks = clocks
        self._random = world.random(f"answers of {name}")
        self._timer: asyncio.TimerHandle | None = None
        model.etcd.listeners.append(lambda *_: self._note_change())
        self._listen()

    @property
    def is_running(self) -> bool:
        """Return whether its process runs."""
        return not self.loop.is_closed()

    def stop(self) -> None:
        """End the process. Its connections end, and it is refused to open new ones."""
        self.loop.kill()
        self.model.watches.restart()

    def start(self) -> None:
        """Start a new process, whose watch cache begins with what etcd has now."""
        self.loop = self._world.loop(self.name, self._clocks)
        self.model.watches.restart()
        self._timer = None
        self._listen()

    def ask(self, request: Request) -> Answer:
        """Have a request carried out now, or what faults let happen instead."""
        carry_out = partial(self.model.handle, request)
        for gate in reversed(self.gates):
            carry_out = partial(gate, request, carry_out)
        answer = carry_out()
        self._plan()
        return answer

    def lag(self, seconds: float) -> None:
        """Let its watch cache be so far behind etcd from now on; 0 lets it catch up."""
        self.model.watches.lag_seconds = seconds
        if self.is_running:
            self.loop.call_soon(self._step)

    def _listen(self) -> None:
        loop = self.loop

        def accept() -> HttpFace:
            return HttpFace(self.ask, loop, self._random, self._world.trace, self._report)

        self._world.network.listen(loop, self._address, PORT, accept)

    def _report(self, served: Served) -> None:
        for listener in self.listeners:
            listener(served)

    def _step(self) -> None:
        self.model.step()
        self._plan()

    def _note_change(self) -> None:
        if self.model.watches.lag_seconds and self.is_running:  # without lag, the change is delivered by now
            self._plan()

    def _plan(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        seconds = self.model.due_at() - self._clocks.wall()
        self._timer = None if math.isinf(seconds) else self.loop.call_later(max(0.0, seconds), self._step)


class ApiServers:
    """The API servers of a cluster. `url` is where programs ask one of them, by chance for each connection.

    `ask` is for what happens by itself in a world: `model`, its server, has no faults and is never behind.
    """

    def __init__(
        self,
        world: World,
        name: str,
        address: str,
        clocks: MachineClocks,
        count: int = 1,
        minor: int = OLDEST_MINOR,
    ) -> None:
        """Start so many of a release, 31 for Kubernetes 1.31, with names such as `api-server`, `api-server-2`."""
        self.url = f"http://{address}:{PORT}"
        self.model = ApiServer(clocks.wall, world.random(f"direct {name}"), minor=minor)
        names = [name if number == 1 else f"{name}-{number}" for number in range(1, count + 1)]
        models = {each: ApiServer(clocks.wall, world.random(each), minor=minor, etcd=self.model.etcd) for each in names}
        self.servers = {each: ServedModel(world, model, each, address, clocks) for each, model in models.items()}
        self._world = world
        self._clocks = clocks
        self._plan()

    def ask(self, request: Request) -> Answer:
        """Have a request carried out now."""
        return self.model.handle(request)

    def _plan(self) -> None:
        """Let the model do what is due: compaction, and what expires. That may be a little late."""
        seconds = self.model.due_at() - self._clocks.wall()
        self._world.timeline.call_later(min(max(seconds, _LEAST_STEP_SECONDS), _MOST_STEP_SECONDS), self._step)

    def _step(self) -> None:
        self.model.step()
        self._plan()

"""A simulated world: machines, the processes on them, and the network between them, all in one thread.

Its time jumps from one event to the next. All that is by chance is drawn from one seed, so a seed has one history.
"""

import gc
from random import Random

from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.network import Network
from tests.worlds.simulation.simulated_loop import SimulatedLoop
from tests.worlds.simulation.timeline import Timeline
from tests.worlds.simulation.trace import Trace

# Garbage is collected when so much has happened, and not when so much was allocated: that depends on what a process
# did before. Most garbage is young. To look at all objects takes more than half of the time of a world of 5,000 nodes.
_STEPS_BETWEEN_COLLECTIONS = 20_000
_STEPS_BETWEEN_FULL_COLLECTIONS = 60 * _STEPS_BETWEEN_COLLECTIONS
_YOUNG, _ALL = 1, 2  # generations


class World:
    """Runs what it is given until a time. `trace` is its history."""

    def __init__(self, seed: int) -> None:
        gc.collect()  # tasks that an earlier world of this process left would end in this one, with errors
        gc.disable()  # from now on, garbage is collected at set steps of the world only
        self._seed = seed
        self.timeline = Timeline()
        self.trace = Trace(self.timeline)
        self.network = Network(self.timeline, self.random("network"))
        self._is_over = False
        self._running: SimulatedLoop | None = None
        self._loops: list[SimulatedLoop] = []
        # Kept to the end: what waits in a process that was killed must not run on when it is freed.
        self._killed: list[SimulatedLoop] = []

    def random(self, what: str) -> Random:
        """Return a random source of its own for something, so that its draws change nothing for others."""
        return Random(f"{self._seed} {what}")

    def loop(self, name: str, clocks: MachineClocks | None = None) -> SimulatedLoop:
        """Return the event loop of a new process on the host of this name."""
        clocks = clocks or MachineClocks(self.timeline)
        pace = self.random(f"pace of {name} from {self.timeline.now}")
        # It has what the programs call of an event loop.
        loop = SimulatedLoop(name, self.timeline, clocks, self.network, pace)  # type: ignore[abstract]
        self._killed += (each for each in self._loops if each.is_closed())
        self._loops = [each for each in self._loops if not each.is_closed()]
        self._loops.append(loop)
        return loop

    def loops(self) -> list[SimulatedLoop]:
        """Return the event loops of all processes that there ever were."""
        return [*self._killed, *self._loops]

    def who(self) -> str:
        """Return the name of the process that runs just now."""
        return "world" if self._running is None else self._running.name

    def end(self) -> None:
        """Let nothing happen any more."""
        self._is_over = True

    def run(self, until: float) -> None:
        """Let everything happen that is due before a time, in seconds since the world began, unless it ends sooner."""
        timeline = self.timeline
        while not self._is_over:
            at, loop = timeline.next_at(), None
            for each in self._loops:
                if each.looks_at < at:
                    at, loop = each.looks_at, each
            if loop is not None and (its := loop.next_at()) > at:
                loop.looks_at = its
                continue
            if at > until:
                timeline.now = until
                return
            if at > timeline.now:
                timeline.now = at
            timeline.steps += 1
            if timeline.steps % _STEPS_BETWEEN_COLLECTIONS == 0:
                gc.collect(_ALL if timeline.steps % _STEPS_BETWEEN_FULL_COLLECTIONS == 0 else _YOUNG)
            self._running = loop
            if loop is None:
                timeline.step()
            else:
                loop.step()
                loop.looks_at = loop.next_at()
            self._running = None

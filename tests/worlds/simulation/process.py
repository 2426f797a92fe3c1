"""A program that runs in a world, as one process after the other on the same machine."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from extender_service.seams import Machine
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.simulated_loop import SimulatedLoop

if TYPE_CHECKING:
    from tests.worlds.simulation.world import World

log = logging.getLogger(__name__)


class Process:
    """A program on a machine, with faults of both.

    `outcome` says how its last process ended; None while it runs. `on_end` is called then.
    `starts` counts its processes.
    """

    def __init__(
        self,
        world: "World",
        name: str,
        main: Callable[[Machine], Coroutine[Any, Any, object]],
        clocks: MachineClocks | None = None,
        *,
        host_name: str | None = None,
    ) -> None:
        """`main` is the program, given its machine, which has the name of the process unless a `host_name` is given.

        It begins with `start`.
        """
        self.name = name
        self.clocks = clocks or MachineClocks(world.timeline)
        self.outcome: str | None = "not started"
        self.on_end: Callable[[], None] = lambda: None
        self._world = world
        self._main = main
        self.host_name = host_name or name
        self.starts = 0
        self.started_at = 0.0
        self._loop: SimulatedLoop | None = None
        self._task: asyncio.Task[object] | None = None

    @property
    def loop(self) -> SimulatedLoop:
        """The event loop of the process that runs, or ran last."""
        assert self._loop is not None, "never started"
        return self._loop

    def start(self) -> None:
        """Start a new process."""
        assert self.outcome is not None, "it runs"
        self.starts += 1
        self.started_at = self._world.timeline.now
        self.outcome = None
        self._loop = loop = self._world.loop(self.name, self.clocks)
        loop.set_signal_handler(signal.SIGUSR2, signal.SIG_IGN)  # as the command line does before the program runs
        random = self._world.random(f"random of {self.name}, start {self.starts}")
        machine = Machine(
            clock=loop.look,
            wall_clock=loop.look_at_wall,
            wall_clock_ns=lambda: round(loop.look_at_wall() * 1e9),
            boot_clock=loop.look_at_boot_clock,
            random=random,
            host_name=lambda: self.host_name,
            listen=lambda address, *, family, backlog, reuse_port=False, dualstack_ipv6=False: cast(
                socket.socket, self._world.network.listening_socket(loop, address)
            ),
            set_signal_handler=loop.set_signal_handler,
        )
        self._world.trace.write(self.name, "starts")
        loop.call_soon(self._begin, loop, machine)

    @property
    def is_awake(self) -> bool:
        """Return whether a process runs, on a machine that is not asleep."""
        return self.outcome is None and not self.clocks.is_asleep

    def freeze(self) -> None:
        """Stop the process where it stands, as SIGSTOP does; its clocks go on."""
        self._world.trace.write(self.name, "freezes")
        self.loop.stops += 1

    def thaw(self) -> None:
        """Let it go on, as SIGCONT does."""
        self._world.trace.write(self.name, "thaws")
        self.loop.stops -= 1

    def fall_asleep(self) -> None:
        """Let the machine sleep, with the process. Neither may be used before it wakes."""
        self._world.trace.write(self.name, "falls asleep")
        self.loop.stops += 1
        self.clocks.fall_asleep()

    def wake(self) -> None:
        """Let the machine wake."""
        self._world.trace.write(self.name, "wakes")
        self.clocks.wake()
        self.loop.stops -= 1

    def kill(self) -> None:
        """End the process at once, as SIGKILL does."""
        self._end("was killed")

    def signal(self, number: int) -> None:
        """Send it a signal, which ends it if it has no handler."""
        self._world.trace.write(self.name, f"gets signal {number}")
        if not self.loop.signal(number):
            self._end(f"ended by signal {number}")

    def _begin(self, loop: SimulatedLoop, machine: Machine) -> None:
        # Kept here, since the loop holds tasks only through what they wait for.
        self._task = loop.create_task(self._main(machine), name="main")
        self._task.add_done_callback(self._finish)

    def _finish(self, main: asyncio.Task[object]) -> None:
        """End what is left, as asyncio.run does."""
        left = [task for task in asyncio.all_tasks(self.loop) if task is not main]
        for task in left:
            task.cancel()
        error = None if main.cancelled() else main.exception()
        outcome = "exits" if error is None else f"fails: {_shown(error)}"

        def end(_: object = None) -> None:
            if self.outcome is None:
                self._end(outcome)

        if left:
            asyncio.gather(*left, return_exceptions=True).add_done_callback(end)
        else:
            self.loop.call_soon(end)

    def _end(self, outcome: str) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self._world.trace.write(self.name, outcome)
            self.loop.kill()
            self.on_end()


def _shown(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return f"{type(error).__name__}({', '.join(map(_shown, error.exceptions))})"
    return repr(error)

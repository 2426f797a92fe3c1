"""Where time and randomness enter: what decides with them takes a clock or a random source at construction.

No other module reads `time` or `random`, except as the default of such a parameter, and no call in this package leaves
it to the default. So a test passes a clock that it moves, and a simulation that passes one machine and one seed to all
parts has one history. tests/unit/test_seams.py and tests/worlds check that.
"""

import signal
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from random import Random
from types import FrameType
from typing import Protocol

Clock = Callable[[], float]
"""Returns seconds since some moment, which never go back, like time.monotonic. A program has one: deadlines are in its
seconds."""

WallClock = Callable[[], float]
"""Returns seconds since 1970, like time.time."""

Sleep = Callable[[float], Awaitable[None]]
"""Waits for some seconds, like asyncio.sleep."""

SignalHandler = Callable[[int, FrameType | None], object] | int | None
"""What a signal does: call something, or signal.SIG_DFL and the like."""

Draw = Callable[[], float]
"""Returns a random number from 0 up to, not including, 1, like random.random."""

BOOT_CLOCK: Clock = partial(time.clock_gettime, getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
"""A clock that also counts the time for which this process was stopped, or the machine slept: for what expires
elsewhere, such as a lease."""

RANDOM = Random()  # noqa: S311 - it balances load and takes samples; no secret depends on it
"""The random source of a program that passes no other."""


class Listen(Protocol):
    """Opens a socket that listens, like socket.create_server."""

    def __call__(
        self,
        address: tuple[str, int],
        *,
        family: int,
        backlog: int,
        reuse_port: bool = False,
        dualstack_ipv6: bool = False,
    ) -> socket.socket:
        """Raise OSError if the address cannot be had."""


SetSignalHandler = Callable[[int, SignalHandler], SignalHandler]
"""Sets what a signal does, and returns what it did before, like signal.signal."""


def _nothing() -> None:
    pass


@dataclass(frozen=True)
class Machine:
    """The machine that a program runs on, and its process. By default, those that this code runs in.

    A program gets one, and passes to each of its parts what it needs of it: clocks, a random source, the name of the
    host, sockets that listen, and signals that are handled also while the event loop is stuck. Connections, timers,
    other signals and threads are the event loop's.

    `memory_settled` is called when most of what is in memory stays there until the end: when the program has started,
    and when it has read the cluster.
    """

    clock: Clock = time.monotonic
    wall_clock: WallClock = time.time
    wall_clock_ns: Callable[[], int] = time.time_ns
    boot_clock: Clock = BOOT_CLOCK
    random: Random = RANDOM
    host_name: Callable[[], str] = socket.gethostname
    listen: Listen = socket.create_server
    set_signal_handler: SetSignalHandler = signal.signal
    memory_settled: Callable[[], object] = _nothing


THIS_MACHINE = Machine()

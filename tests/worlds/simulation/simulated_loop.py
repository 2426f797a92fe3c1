"""An event loop in simulated time: that of one process on one machine of a world.

It runs one callback at a time, when the world says so. Nothing in it touches the system: connections and servers are
the network's, and what would run in a thread runs here.
"""

import asyncio
import contextvars
import heapq
import itertools
import logging
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial
from random import Random
from signal import SIG_DFL
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple
from weakref import WeakSet

from extender_service.seams import SignalHandler
from tests.worlds.simulation.clocks import MachineClocks
from tests.worlds.simulation.timeline import NEVER, Timeline

if TYPE_CHECKING:
    from tests.worlds.simulation.memory_sockets import AcceptedSocket
    from tests.worlds.simulation.network import Network

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
# Times are sums of floats; a timer that is due to within this is due.
_RESOLUTION_SECONDS = 1e-9

# A callback takes so long at least, and up to so much more, most of them little of it.
_LEAST_SECONDS = 10e-6
_MORE_SECONDS = 400e-6
# Each look at the clock is a moment later than the one before, within one callback, too.
_LOOK_SECONDS = 5e-6

_numbers = itertools.count()


class NumberedFuture(asyncio.Future[_T]):
    """A future whose hash is a number of its own, and not its address: sets of them have an order that repeats."""

    def __init__(self, *, loop: asyncio.AbstractEventLoop) -> None:
        self._number = next(_numbers)
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class NumberedTask(asyncio.Task[_T]):
    """The same for tasks, which asyncio.TaskGroup cancels in the order of a set."""

    def __init__(
        self,
        coroutine: Generator[Any, None, _T] | Coroutine[Any, Any, _T],
        *,
        loop: asyncio.AbstractEventLoop,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> None:
        self._number = next(_numbers)
        super().__init__(coroutine, loop=loop, name=name or f"task-{self._number}", context=context)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one process. The world calls `step` at `next_at`, in seconds of its own time.

    - `name`: the process's, in the trace
    - `failures`: the contexts that callbacks failed with, as the exception handler got them
    - `looks_at`: `next_at` returns no earlier time than this. So the world asks only the loop that may be next
    """

    def __init__(self, name: str, timeline: Timeline, clocks: MachineClocks, network: "Network", pace: Random) -> None:
        """`pace` is how much time computing takes."""
        self.name = name
        self.clocks = clocks
        self.network = network
        self.failures: list[dict[str, Any]] = []
        self.looks_at = 0.0
        self._stops = 0
        self._timeline = timeline
        self._pace = pace
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._arrivals: list[tuple[float, int, asyncio.Handle]] = []
        self._order = itertools.count()
        self._busy_until = 0.0
        self._looks_seconds = 0.0
        self._signals: dict[int, asyncio.Handle] = {}
        self._system_signals: dict[int, SignalHandler] = {}
        self._readers: dict[int, Callable[[], object]] = {}
        self._is_closed = False
        self._finalizer = self._close_generator
        self._countdown = 0
        self._at_zero: Callable[[], None] = lambda: None
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        clocks.on_change.append(self._look_again)

    # What the world calls:

    @property
    def stops(self) -> int:
        """As long as this is not 0, the process is stopped; all that comes for it waits."""
        return self._stops

    @stops.setter
    def stops(self, count: int) -> None:
        self._stops = count
        self._look_again()

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Return the tasks that have not ended, as asyncio.all_tasks does, which looks at those of all loops."""
        return [task for task in self._tasks if not task.done()]

    def has_unread_error(self) -> bool:
        """Return whether a task has failed, and nothing has read its error so far."""
        return any(task.done() and task._log_traceback for task in self._tasks)

    def next_at(self) -> float:
        """Return when the next callback runs, in the world's time; infinity if there is none."""
        if self._stops or self._is_closed:
            return NEVER
        if self._ready:
            return self._busy_until
        at, timers = NEVER, self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if timers:
            at = self.clocks.world_time_of(timers[0][0])
        if self._arrivals and (arrives_at := self._arrivals[0][0]) < at:
            at = arrives_at
        return max(self._busy_until, at)

    def step(self) -> None:
        """Run the next callback, and take some time for it."""
        self._take_what_is_due()
        if not self._ready:  # a timer was cancelled, or its clock drifts
            return
        handle = self._ready.popleft()
        if handle._cancelled:
            return
        self._looks_seconds = 0.0
        asyncio._set_running_loop(self)
        sys.set_asyncgen_hooks(None, self._finalizer)
        try:
            handle._run()
        finally:
            sys.set_asyncgen_hooks(None, None)
            asyncio._set_running_loop(None)
        drawn = self._pace.random()
        computing = _LEAST_SECONDS + _MORE_SECONDS * drawn**4 + self._looks_seconds
        self._looks_seconds = 0.0
        self._busy_until = self._timeline.now + computing
        if self._countdown:
            self._countdown -= 1
            if not self._countdown:
                self._at_zero()

    def after_callbacks(self, count: int, action: Callable[[], None]) -> None:
        """Do something after so many more callbacks, at least one. The last call of this counts."""
        self._countdown, self._at_zero = count, action

    def call_at_world(self, at: float, callback: Callable[..., object], *args: Any) -> None:
        """Call something at a time of the world's: what comes from outside, such as bytes."""
        if not self._is_closed:
            heapq.heappush(self._arrivals, (at, next(self._order), asyncio.Handle(callback, args, self)))
            self.looks_at = min(self.looks_at, at)

    def read_ready(self, numbers: list[int]) -> None:
        """Call what waits for files with these numbers to become readable."""
        for number in numbers:
            if number in self._readers:
                self._readers[number]()

    def stall(self, seconds: float) -> None:
        """Keep the process from running for so long, from now on."""
        self._busy_until = max(self._busy_until, self._timeline.now + seconds)

    def compute(self, seconds: float) -> None:
        """Let the callback that runs just now take so much longer: its next looks at a clock show that."""
        self._looks_seconds += seconds

    def signal(self, number: int) -> bool:
        """Send a signal; return False if no handler is there, so that it ends the process."""
        handle = self._signals.get(number)
        if handle is not None:
            self._ready.append(handle)
            self._look_again()
            return True
        handler = self._system_signals.get(number, SIG_DFL)
        if callable(handler):
            self.call_soon(handler, number, None)
        return handler is not SIG_DFL

    def kill(self) -> None:
        """End the process where it stands: nothing runs in it any more. The system closes its connections."""
        self._is_closed = True
        self.network.hang_up(self)

    def _look_again(self) -> None:
        """Let the world ask when the next callback runs: that may be sooner now."""
        self.looks_at = 0.0

    def _take_what_is_due(self) -> None:
        now = self._timeline.now + _RESOLUTION_SECONDS
        while self._arrivals and self._arrivals[0][0] <= now:
            self._ready.append(heapq.heappop(self._arrivals)[2])
        if not self._timers:
            return
        due = self.clocks.monotonic() + _RESOLUTION_SECONDS
        while self._timers and self._timers[0][0] <= due:
            timer = heapq.heappop(self._timers)[2]
            if not timer._cancelled:
                self._ready.append(timer)

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._is_closed:
            self.call_soon(self.create_task, generator.aclose())

    # Time:

    def time(self) -> float:
        """Return what the machine's monotonic clock shows."""
        return self.clocks.monotonic() + self._looks_seconds

    def look(self) -> float:
        """Return the same for a program that reads its clock, which takes a moment."""
        self._looks_seconds += _LOOK_SECONDS
        return self.clocks.monotonic() + self._looks_seconds

    def look_at_boot_clock(self) -> float:
        """Return what the clock shows that counts sleep."""
        self._looks_seconds += _LOOK_SECONDS
        return self.clocks.boot() + self._looks_seconds

    def look_at_wall(self) -> float:
        """Return seconds since 1970."""
        self._looks_seconds += _LOOK_SECONDS
        return self.clocks.wall() + self._looks_seconds

    # What asyncio and the programs call:

    def set_signal_handler(self, number: int, handler: SignalHandler) -> SignalHandler:
        """Set what a signal does, as signal.signal; return what it did before."""
        before = self._system_signals.get(number, SIG_DFL)
        self._system_signals[number] = handler
        return before

    def add_reader(self, fd: Any, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        """Call something when a connection arrives at a socket that listens."""
        self._readers[fd] = partial(callback, *args)
        self.call_soon(self.read_ready, [fd])

    def remove_reader(self, fd: Any) -> bool:
        return self._readers.pop(fd, None) is not None

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], sock: "AcceptedSocket", **options: Any
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        assert not options.get("ssl"), "TLS is outside of this world"
        protocol = protocol_factory()
        sock.transport.begin_accepted(protocol, sock)
        return sock.transport, protocol

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._is_closed:
            self._ready.append(handle)
            self.looks_at = 0.0
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._is_closed:
            heapq.heappush(self._timers, (when, next(self._order), timer))
            self.looks_at = 0.0
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by a handle; it is dropped when its turn comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, _T] | Coroutine[Any, Any, _T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[_T]:
        task = NumberedTask(coro, loop=self, name=name, context=context)
        self._tasks.add(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., _T], *args: Any
    ) -> asyncio.Future[_T]:
        """Run a job that belongs into a thread here, in one of the next callbacks."""
        done: asyncio.Future[_T] = self.create_future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(func(*args))
            except Exception as error:
                done.set_exception(error)

        self.call_soon(run)
        return done

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str, port: int, **options: Any
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        assert not options.get("ssl"), "TLS is outside of this world"
        return await self.network.connect(self, protocol_factory, host, port)

    def add_signal_handler(self, sig: int, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        self._signals[sig] = asyncio.Handle(callback, args, self)

    def remove_signal_handler(self, sig: int) -> bool:
        return self._signals.pop(sig, None) is not None

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)
        log.error("%s", context.get("message"), exc_info=context.get("exception"))

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_closed

    def is_closed(self) -> bool:
        return self._is_closed


def running_loop() -> SimulatedLoop:
    """Return the loop of the process that runs just now."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return loop

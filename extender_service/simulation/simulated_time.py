"""Time that passes when it is told to, for the waits of a scheduler."""

import asyncio
import heapq
from itertools import count
from typing import Any


class SimulatedTime:
    """A clock, and waits that end when the clock gets there. It starts at 0 seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = count()
        self._waits: list[tuple[float, int, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        """Return the seconds that have passed."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Wait until so many seconds have passed; for none, let other tasks run."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        wait = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waits, (self.now + seconds, next(self._numbers), wait))
        await wait

    def advance(self) -> None:
        """Let time pass until the next wait ends; without a wait, it stands still."""
        while self._waits:
            end, _, wait = heapq.heappop(self._waits)
            if not wait.done():  # else its task was cancelled
                self.now = end
                wait.set_result(None)
                return

    def pass_seconds(self, seconds: float) -> None:
        """Let some time pass that no wait depends on."""
        self.now += max(0.0, seconds)


class PluginSleeps:
    """The waits of plugins by simulated time. The length is how many tasks wait: nothing but time moves them."""

    def __init__(self, time: SimulatedTime) -> None:
        self._time = time
        # In the order in which they began.
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._ended = ""

    def __len__(self) -> int:
        return len(self._tasks)

    async def sleep(self, seconds: float) -> None:
        """Wait until so many seconds have passed."""
        task = asyncio.current_task()
        assert task is not None
        if self._ended:
            task.cancel(self._ended)
        self._tasks[task] = None
        try:
            await self._time.sleep(seconds)
        finally:
            del self._tasks[task]

    def end(self, why: str) -> None:
        """Cancel the tasks that wait, and those that come to: time passes no more."""
        self._ended = why
        for task in self._tasks:
            task.cancel(why)

"""Time that passes when it is told to, for the waits of a scheduler."""

import asyncio
import heapq
from itertools import count


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

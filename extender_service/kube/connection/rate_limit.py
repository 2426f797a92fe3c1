"""How often something may be done."""

import asyncio
import time
from collections.abc import Awaitable, Callable

# kube-scheduler's defaults for each of its clients (clientConnection).
REQUESTS_PER_SECOND = 50.0
REQUESTS_AT_ONCE = 100


class TokenBucket:
    """Lets up to `burst` things happen at once, and `per_second` a second in the long run.

    client-go limits its requests so (util/flowcontrol/throttle.go). `clock` gives seconds that only grow.
    """

    def __init__(
        self,
        per_second: float,
        burst: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._sleep = sleep
        self._tokens = float(burst)
        self._counted_at = clock()

    async def take(self) -> float:
        """Wait until the next thing may happen; return for how long. Callers proceed in the order of their calls."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._per_second)
        self._counted_at = now
        # Below zero, tokens are owed: the next caller waits longer.
        self._tokens -= 1
        if self._tokens >= 0:
            return 0.0
        seconds = -self._tokens / self._per_second
        await self._sleep(seconds)
        return seconds

    def wait_seconds(self) -> float:
        """Return how long a caller would wait now."""
        tokens = self._tokens + (self._clock() - self._counted_at) * self._per_second
        return max(0.0, (1 - tokens) / self._per_second)

"""How long to wait before the next try."""

import random
import time
from collections.abc import Callable


class Backoff:
    """Delays that double from `initial_seconds` to `limit_seconds`, each stretched at random to up to twice its length.

    The values and the rule are those of client-go's reflector (tools/cache/reflector.go): after `reset_seconds` without
    a failure the server counts as healthy again, and delays start over.
    """

    def __init__(
        self,
        *,
        initial_seconds: float = 0.8,
        limit_seconds: float = 30.0,
        reset_seconds: float = 120.0,
        clock: Callable[[], float] = time.monotonic,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._initial_seconds = initial_seconds
        self._limit_seconds = limit_seconds
        self._reset_seconds = reset_seconds
        self._clock = clock
        self._uniform = uniform
        self._next_seconds = initial_seconds
        self._last_failure = clock()

    def next_delay(self) -> float:
        """Count one more failure, now, and return the seconds to wait for."""
        now = self._clock()
        if now - self._last_failure > self._reset_seconds:
            self._next_seconds = self._initial_seconds
        self._last_failure = now
        delay = self._next_seconds
        self._next_seconds = min(2 * delay, self._limit_seconds)
        return delay * self._uniform(1.0, 2.0)

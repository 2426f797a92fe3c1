"""Work that is done in one go, cut into slices."""

import asyncio
from collections.abc import Callable
from typing import Final

SLICE_SECONDS: Final = 0.002
# A call takes so many turns of the event loop from its first bytes to its answer, and should not wait at each.
_TURNS_BETWEEN_SLICES: Final = 8


class Slices:
    """Slices of work, between which other tasks run. The first begins now.

    `end` is when this slice has lasted long enough, in seconds of the clock: then `rest`.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self.end = clock() + seconds

    async def rest(self) -> None:
        """Let other tasks run, then begin the next slice."""
        for _ in range(_TURNS_BETWEEN_SLICES):
            await asyncio.sleep(0)
        self.end = self._clock() + self._seconds

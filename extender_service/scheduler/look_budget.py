"""How many events are looked at in one turn of the event loop, when pods come back that were in flight for long.

With queueing hints, plugins are asked about each event that a pod has missed. The pods of a gang that times out in
Permit come back at once, each with the events of the whole wait: in one turn, that could take longer than the lease
lasts.
"""

import asyncio
from collections import deque
from typing import Final

# A hint takes a microsecond or some: so many take some tens of milliseconds.
MOST_LOOKS_A_TURN: Final = 10_000


class LookBudget:
    """Looks at events that are left in this turn; those who find none left wait for a later one, first come first.

    A turn has at least one caller, however many looks that one takes.
    """

    def __init__(self) -> None:
        self._left = MOST_LOOKS_A_TURN
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, looks: int) -> None:
        """Wait until so many events may be looked at, before the caller awaits anything else."""
        if not looks:
            return
        if self._left > 0 and not self._waiting:
            self._spend(looks)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, looks))
        await turn

    def _spend(self, looks: int) -> None:
        if self._left == MOST_LOOKS_A_TURN:  # the first in this turn
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._left -= looks

    def _begin_turn(self) -> None:
        self._left = MOST_LOOKS_A_TURN
        while self._waiting and self._left > 0:
            turn, looks = self._waiting.popleft()
            if not turn.done():  # its task was cancelled
                turn.set_result(None)
                self._spend(looks)

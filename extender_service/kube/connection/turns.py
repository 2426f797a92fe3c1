"""How many requests may be under way."""

import asyncio
from collections import deque


class Turns:
    """So many at once; others wait, and their turns come in the order in which they began to wait.

    As asyncio.Semaphore, except that a free turn is taken without a coroutine, as nearly all are.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_free(self) -> bool:
        """Take a turn if one is free, and return whether one was; if not, `wait`."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def wait(self) -> None:
        """Wait for a turn that is given back."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it came in the same moment
                self.give_back()
            raise

    def give_back(self) -> None:
        """End a turn."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # its task was cancelled
                turn.set_result(None)
                return
        self._free += 1

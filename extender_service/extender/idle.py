"""Work that can wait until nobody waits for an answer."""

import asyncio
from collections.abc import Callable

# Turns of the event loop without a new call after which there will be none for a while: kube-scheduler, unlike a load
# test, has work of its own to do between an answer and its next call.
_TURNS = 4


class IdleWork:
    """Does its work a moment after the last answer; not if the next call comes first, which then does its own."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._calls = 0

    def interrupt(self) -> None:
        """A call has come."""
        self._calls += 1

    def plan(self) -> None:
        """A call has been answered."""
        self._wait(self._calls, _TURNS)

    def _wait(self, calls: int, turns: int) -> None:
        if calls != self._calls:
            return
        if turns:
            asyncio.get_running_loop().call_soon(self._wait, calls, turns - 1)
        else:
            self._work()

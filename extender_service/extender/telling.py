"""Telling about calls, for which the next call need not wait."""

import asyncio

from extender_service.extender.observation import Observation, Observer

# Turns of the event loop without a new call after which nobody waits: one that has come is read in the next but one.
_TURNS = 3
# Where one call follows the other so closely that there is no such moment, so many are told about together.
_MOST_WAITING = 8


class Telling:
    """Tells an observer about calls, a moment after the last answer; of calls in close order, about a few at a time."""

    def __init__(self, observe: Observer) -> None:
        self._observe = observe
        self._waiting: list[Observation] = []
        self._calls = 0

    def interrupt(self) -> None:
        """A call has come."""
        self._calls += 1

    def plan(self, observation: Observation) -> None:
        """A call has been answered."""
        self._waiting.append(observation)
        if len(self._waiting) < _MOST_WAITING:
            self._wait(self._calls, _TURNS)
        else:
            self._tell()

    def _wait(self, calls: int, turns: int) -> None:
        if calls != self._calls:
            return  # that call's answer will come
        if turns:
            asyncio.get_running_loop().call_soon(self._wait, calls, turns - 1)
        else:
            self._tell()

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, []
        for observation in waiting:
            self._observe(observation)

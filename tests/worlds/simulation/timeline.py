"""The time of a world, and what happens in it outside of processes."""

import heapq
import itertools
from collections.abc import Callable

NEVER = float("inf")


class Timeline:
    """`now` is in seconds since the world began; `steps` counts what has happened."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()

    def call_at(self, at: float, action: Callable[[], None]) -> None:
        """Do something at a time; at once if that is over."""
        heapq.heappush(self._actions, (max(at, self.now), next(self._order), action))

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something after some seconds."""
        self.call_at(self.now + seconds, action)

    def next_at(self) -> float:
        """Return when the next action is due; infinity if there is none."""
        return self._actions[0][0] if self._actions else NEVER

    def step(self) -> None:
        """Do what is due next."""
        heapq.heappop(self._actions)[2]()

"""How long a call may wait for the watch before it refuses every node.

kube-scheduler asks because of an event that our watch may not have seen yet, and a refusal can cost the pod minutes.
"""

from collections.abc import Callable

# The longest that one call waits.
PATIENCE_SECONDS = 0.025
# The share of wall time that all calls together may wait, and how much of it may be saved up.
SHARE = 0.05
SAVED_SECONDS = 0.25


class WaitBudget:
    """Time that may still be spent waiting: it grows with the clock and is used up by waits."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = SAVED_SECONDS
        self._at = clock()

    def allowance(self) -> float:
        """Return how long a call may wait now, in seconds; 0 if it may not."""
        now = self._clock()
        self._left = min(SAVED_SECONDS, self._left + SHARE * (now - self._at))
        self._at = now
        return PATIENCE_SECONDS if self._left >= PATIENCE_SECONDS else 0.0

    def spend(self, seconds: float) -> None:
        """Account for a wait."""
        self._left -= seconds

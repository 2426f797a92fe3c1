"""Pods that came to nodes and left them, for those who keep counts of pods."""

from typing import NamedTuple

from extender_service.cluster.label_sets import LabelSet

# Beyond this many changes, counting anew costs less than catching up.
MOST_CHANGES = 1024


class PodChange(NamedTuple):
    """A pod with these labels came to a node row (sign 1) or left it (-1)."""

    label_set: LabelSet
    row: int
    sign: int
    is_terminating: bool


class PodChanges:
    """The last changes, by their number in the order in which they happened."""

    def __init__(self) -> None:
        self._changes: list[PodChange] = []
        self._forgotten = 0

    @property
    def count(self) -> int:
        """How many changes there ever were."""
        return self._forgotten + len(self._changes)

    def append(self, change: PodChange) -> None:
        """Take note of a change."""
        self._changes.append(change)
        if len(self._changes) > 2 * MOST_CHANGES:
            del self._changes[:MOST_CHANGES]
            self._forgotten += MOST_CHANGES

    def since(self, count: int) -> list[PodChange] | None:
        """The changes after the first `count`; None if there were too many."""
        if self.count - count > MOST_CHANGES:
            return None
        return self._changes[count - self._forgotten :]

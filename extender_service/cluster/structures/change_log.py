"""The last of many changes, for those who keep something that follows from them."""

from typing import Generic, TypeVar

T = TypeVar("T")

# Beyond this many changes, working it out anew costs less than catching up.
MOST_CHANGES = 1024


class ChangeLog(Generic[T]):
    """The last changes, by their number in the order in which they happened; `count` is how many there ever were."""

    def __init__(self) -> None:
        self.count = 0
        self._changes: list[T] = []
        self._forgotten = 0

    def append(self, change: T) -> None:
        """Take note of a change."""
        self.count += 1
        self._changes.append(change)
        if len(self._changes) > 2 * MOST_CHANGES:
            del self._changes[:MOST_CHANGES]
            self._forgotten += MOST_CHANGES

    def since(self, count: int) -> list[T] | None:
        """The changes after the first `count`; None if there were too many."""
        if self.count - count > MOST_CHANGES:
            return None
        return self._changes[count - self._forgotten :]

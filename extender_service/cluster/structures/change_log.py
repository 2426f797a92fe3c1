"""The latest changes, for results that are kept current from them."""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

# Beyond this many changes, computing a result again costs less than catching up.
MOST_CHANGES = 1024
_MOST_KEPT = 2 * MOST_CHANGES
# A change may refer to content of a pod, such as its labels, which may take half a megabyte. Changes that refer to less
# than this are bounded by their number.
LARGE_BYTES = 4 << 10
MOST_LARGE_BYTES = 16 << 20


class ChangeLog(Generic[T]):
    """The latest changes, oldest first, numbered from the first change ever; `count` is how many there ever were."""

    def __init__(self) -> None:
        self.count = 0
        self._changes: list[T] = []
        self._forgotten = 0
        # The number and size of each large change.
        self._large: deque[tuple[int, int]] = deque()
        self._large_bytes = 0

    def append(self, change: T) -> None:
        """Record a change that refers to no more than LARGE_BYTES."""
        changes = self._changes
        changes.append(change)
        self.count += 1
        if len(changes) > _MOST_KEPT:
            self._forget_older_half()

    def append_large(self, change: T, size_bytes: int) -> None:
        """Record a change that refers to more. The log forgets older ones once all of these exceed MOST_LARGE_BYTES."""
        self.append(change)
        self._large.append((self.count, size_bytes))
        self._large_bytes += size_bytes
        while self._large_bytes > MOST_LARGE_BYTES:
            self._forget_older_half()

    def since(self, count: int) -> list[T] | None:
        """Return the changes after the first `count`; None if there were too many, or the log forgot some of them."""
        if self.count - count > MOST_CHANGES or count < self._forgotten:
            return None
        return self._changes[count - self._forgotten :]

    def _forget_older_half(self) -> None:
        half = (len(self._changes) + 1) // 2
        del self._changes[:half]
        self._forgotten += half
        while self._large and self._large[0][0] <= self._forgotten:
            self._large_bytes -= self._large.popleft()[1]

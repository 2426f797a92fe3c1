"""The last of many changes, for what follows them."""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

# Beyond this many changes, computing a result again costs less than catching up.
MOST_CHANGES = 1024
# Changes may refer to what pods brought, such as labels, of which a pod may have half a megabyte. Those that refer to
# less are bounded by their number.
LARGE_BYTES = 4 << 10
MOST_LARGE_BYTES = 16 << 20


class ChangeLog(Generic[T]):
    """The last changes, by their number in the order in which they happened; `count` is how many there ever were."""

    def __init__(self) -> None:
        self.count = 0
        self._changes: list[T] = []
        self._forgotten = 0
        # The number and size of each large change.
        self._large: deque[tuple[int, int]] = deque()
        self._large_bytes = 0

    def append(self, change: T) -> None:
        """Take note of a change that refers to no more than LARGE_BYTES."""
        self.count += 1
        self._changes.append(change)
        if len(self._changes) > 2 * MOST_CHANGES:
            self._forget_older_half()

    def append_large(self, change: T, size_bytes: int) -> None:
        """Take note of a change that refers to more. The log forgets earlier where that is too much together."""
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

"""The last of many changes, for what follows them."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

# Beyond this many changes, computing a result again costs less than catching up.
MOST_CHANGES = 1024
# Changes may refer to what pods brought, such as labels, of which a pod may have half a megabyte.
MOST_BYTES = 16 << 20


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
            self._forget_older_half()

    def since(self, count: int) -> list[T] | None:
        """Return the changes after the first `count`; None if there were too many, or the log forgot some of them."""
        if self.count - count > MOST_CHANGES or count < self._forgotten:
            return None
        return self._changes[count - self._forgotten :]

    def _forget_older_half(self) -> list[T]:
        half = len(self._changes) // 2
        older = self._changes[:half]
        del self._changes[:half]
        self._forgotten += half
        return older


class SizedChangeLog(ChangeLog[T]):
    """A log of changes that refer to much: `size_of` returns how many bytes. It forgets earlier where they are many."""

    def __init__(self, size_of: Callable[[T], int]) -> None:
        super().__init__()
        self._size_of = size_of
        self._size_bytes = 0

    def append(self, change: T) -> None:
        """Take note of a change."""
        self.count += 1
        self._changes.append(change)
        self._size_bytes += self._size_of(change)
        if len(self._changes) > 2 * MOST_CHANGES or self._size_bytes > MOST_BYTES:
            self._forget_older_half()

    def _forget_older_half(self) -> list[T]:
        older = super()._forget_older_half()
        self._size_bytes -= sum(map(self._size_of, older))
        return older

"""Values that repeat, kept once under a small number."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from extender_service.caches import cached

V = TypeVar("V", bound=Hashable)


@cached("texts", most_entries=1 << 14, most_entry_bytes=700, most_size=128)
def shared(text: str) -> str:
    """Return an equal text: one object for all who keep it, if it is common."""
    return text


class Interner(Generic[V]):
    """Gives each distinct value a number, for as long as it has a holder.

    Numbers start at 0 and are reused, so arrays indexed by them stay as small as the most values that were ever held
    at one time. `version` grows whenever a number gets a value: an answer computed per value is good until then.
    """

    __slots__ = ("_free", "_holders", "_numbers", "values", "version")

    def __init__(self) -> None:
        self.values: list[V | None] = []
        self.version = 0
        self._numbers: dict[V, int] = {}
        self._holders: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[tuple[int, V]]:
        """Iterate over (number, value) of all values held."""
        return ((number, value) for value, number in self._numbers.items())

    @property
    def size(self) -> int:
        """One more than the highest number in use."""
        return len(self.values)

    def number_of(self, value: V) -> int:
        """Return the number of a value, or -1 if it has no holder."""
        return self._numbers.get(value, -1)

    def hold(self, value: V) -> int:
        """Return the number of a value, which is kept until it is released as often as it was held."""
        number = self._numbers.get(value)
        if number is not None:
            self._holders[number] += 1
            return number
        self.version += 1
        if self._free:
            number = self._free.pop()
            self.values[number] = value
            self._holders[number] = 1
        else:
            number = len(self.values)
            self.values.append(value)
            self._holders.append(1)
        self._numbers[value] = number
        return number

    def hold_again(self, number: int) -> None:
        """Hold a value, of which this is the number, once more."""
        self._holders[number] += 1

    def release(self, number: int) -> bool:
        """Let go of a value once; returns whether that was its last holder."""
        self._holders[number] -= 1
        if self._holders[number]:
            return False
        value = self.values[number]
        assert value is not None
        del self._numbers[value]
        self.values[number] = None
        self._free.append(number)
        return True

    def copy(self) -> "Interner[V]":
        """Return an interner with the same numbers that can be changed without changing this one."""
        twin: Interner[V] = Interner()
        twin.values = self.values.copy()
        twin.version = self.version
        twin._numbers = self._numbers.copy()
        twin._holders = self._holders.copy()
        twin._free = self._free.copy()
        return twin

"""Which pods have something."""

from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K", bound=Hashable)


class SlotIndex(Generic[K]):
    """The slots of the pods that have a thing, by the thing. Most things have one pod, kept without a set."""

    def __init__(self) -> None:
        self._slots: dict[K, int | set[int]] = {}

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, thing: K, slot: int) -> None:
        """Note that a pod has a thing; noting it again changes nothing."""
        known = self._slots.get(thing)
        if known is None or known == slot:
            self._slots[thing] = slot
        elif isinstance(known, int):
            self._slots[thing] = {known, slot}
        else:
            known.add(slot)

    def discard(self, thing: K, slot: int) -> None:
        """Note that a pod does not have a thing."""
        known = self._slots.get(thing)
        if isinstance(known, set):
            known.discard(slot)
            if len(known) == 1:
                self._slots[thing] = known.pop()
        elif known == slot:
            del self._slots[thing]

    def holders(self, *things: K) -> AbstractSet[int]:
        """Return the slots of the pods that have one of the things; good until the next change."""
        found: set[int] = set()
        for thing in things:
            known = self._slots.get(thing)
            if isinstance(known, int):
                found = found | {known}
            elif known is not None:
                # Thousands of pods may share one thing: they are copied only where there is another such thing.
                found = found | known if found else known
        return found

    def slots(self, *things: K) -> NDArray[np.intp]:
        """Return the same as an array."""
        found = self.holders(*things)
        return np.fromiter(found, np.intp, len(found))

"""A heap whose items can be found, replaced and removed by a key (pkg/scheduler/internal/heap).

heapq works on entries of [order, number, key, item], so comparisons run in C. A removed entry stays in the list without
its item until it comes to the top, or until such entries are most of the list.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# Below this length, removed entries are not worth a new list.
_SHORT = 64


# [order, number, key, item]; a removed entry has None as its item. No two entries ever have one number, so that
# comparisons end there.
_Entry = list[Any]


class KeyedHeap(Generic[T]):
    """Items by key, least first. Of items of equal order, the one that was added first comes first.

    `order` returns what an item is compared by. It is called when the item is added. What it returned must stay as it
    is when the item changes; the item is then added again.
    """

    def __init__(self, order: Callable[[T], Any]) -> None:
        self._order = order
        self._entries: dict[str, _Entry] = {}
        self._heap: list[_Entry] = []
        self._number = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[T]:
        """Yield the items, in no order."""
        for entry in self._entries.values():
            yield entry[3]

    def get(self, key: str) -> T | None:
        """Return the item of a key, None if there is none."""
        entry = self._entries.get(key)
        item: T | None = None if entry is None else entry[3]
        return item

    def add(self, key: str, item: T) -> None:
        """Add an item, or replace the one of its key. It keeps its place among equals, if its order is the same."""
        order = self._order(item)
        known = self._entries.get(key)
        if known is not None:
            if known[0] == order:
                known[3] = item
                return
            self._drop(known)
        self._number += 1
        entry = self._entries[key] = [order, self._number, key, item]
        heapq.heappush(self._heap, entry)

    def remove(self, key: str) -> bool:
        """Remove the item of a key; return whether there was one."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._drop(entry)
        return True

    def peek(self) -> T | None:
        """Return the least item, None if there is none."""
        heap = self._heap
        while heap:
            item: T | None = heap[0][3]
            if item is not None:
                return item
            heapq.heappop(heap)
        return None

    def pop(self) -> T | None:
        """Remove and return the least item, None if there is none."""
        heap = self._heap
        while heap:
            _, _, key, item = heapq.heappop(heap)
            if item is not None:
                del self._entries[key]
                popped: T = item
                return popped
        return None

    def _drop(self, entry: _Entry) -> None:
        entry[3] = None
        if len(self._heap) > _SHORT and len(self._heap) > 2 * len(self._entries):
            self._heap = [other for other in self._heap if other[3] is not None]
            heapq.heapify(self._heap)

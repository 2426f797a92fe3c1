"""Caches by value, made in one place, each within a bound in bytes.

Pods, callers and objects make up what a cache is asked by. So a cache does not keep what is too large, and holds at
most its number of entries times the most that one may take. `caches` lists them all:

- `cached` for the result of a function, which depends on its arguments alone;
- `LruCache` for values that something else than a function call makes, or whose size is only known then;
- `LastFew` for keys that are compared in another way than by a hash, such as by identity.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable
from functools import wraps
from sys import getsizeof
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, TypeVarTuple, cast
from weakref import WeakSet

import msgspec
import numpy as np

A = TypeVarTuple("A")
R = TypeVar("R")
K = TypeVar("K")
H = TypeVar("H", bound=Hashable)
V = TypeVar("V")

# What a map takes for an entry, and the cache for its bookkeeping.
_BYTES_AN_ENTRY = 250


UNKNOWN: tuple[object, None] = (object(), None)
"""What stands for a value that is not kept. As a result at a version, its version is that of no other."""


class CacheSize(NamedTuple):
    """How full a cache is: `size_bytes` is an estimate from above, and never more than `most_bytes`."""

    name: str
    entries: int
    size_bytes: int
    most_bytes: int


class Cache(Protocol):
    """What is listed."""

    def current_size(self) -> CacheSize:
        """Return how full the cache is."""


_functions: "dict[str, _Results]" = {}
_objects: WeakSet[Cache] = WeakSet()


def caches() -> list[CacheSize]:
    """Return the size of each cache, by name; those of one name, as of two clusters, are added up."""
    entries: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    limits: Counter[str] = Counter()
    for cache in [*_functions.values(), *_objects]:
        name, count, size_bytes, most_bytes = cache.current_size()
        entries[name] += count
        sizes[name] += size_bytes
        limits[name] += most_bytes
    return [CacheSize(name, entries[name], sizes[name], limits[name]) for name in sorted(entries)]


def listed(cache: Cache) -> None:
    """Have `caches` list a cache for as long as it exists."""
    _objects.add(cache)


def cached(
    name: str,
    *,
    most_entries: int,
    most_entry_bytes: int,
    most_size: int | None,
    size: Callable[[Any], int] = len,
) -> Callable[[Callable[[*A], R]], Callable[[*A], R]]:
    """Keep the results of a function by its arguments.

    `size` measures the first argument: what is larger than `most_size` is computed each time, and not kept. The other
    arguments are small, or the program's own; with None for `most_size`, so is the first. `most_entry_bytes` is the
    most that an entry may take: arguments of that size, the result, and some 250 bytes of the cache itself.

    The function may raise; errors are not kept. It cannot be called with arguments by name.
    """

    def decorate(function: Callable[[*A], R]) -> Callable[[*A], R]:
        compute = cast("Callable[..., R]", function)
        takes_one = function.__code__.co_argcount == 1

        def is_small(key: Any) -> bool:
            return most_size is None or size(key if takes_one else key[0]) <= most_size

        of_key = compute if takes_one else lambda key: compute(*key)
        results = _Results(name, of_key, is_small, most_entries, most_entry_bytes)
        known = results.__getitem__

        @wraps(function)
        def of_many(*arguments: Any) -> Any:
            return known(arguments)

        assert name not in _functions
        _functions[name] = results
        # To find the result for a single argument takes no call of Python.
        return cast("Callable[[*A], R]", known if takes_one else of_many)

    return decorate


class _Results(dict[Any, Any]):
    """Results by key, in two generations: what is not asked for while half of the entries come is forgotten.

    Since only what is small is kept, only a miss looks at the size.
    """

    def __init__(
        self,
        name: str,
        compute: Callable[[Any], Any],
        is_small: Callable[[Any], bool],
        most_entries: int,
        most_entry_bytes: int,
    ) -> None:
        super().__init__()
        self.most_entries = most_entries
        self._name = name
        self._compute = compute
        self._is_small = is_small
        self._most_entry_bytes = most_entry_bytes
        self._older: dict[Any, Any] = {}

    def __missing__(self, key: Any) -> Any:
        if key in self._older:
            result = self._older.pop(key)
        else:
            result = self._compute(key)
            if not self._is_small(key):
                return result
        if len(self) >= self.most_entries // 2:
            self._older = dict(self)
            self.clear()
        self[key] = result
        return result

    def current_size(self) -> CacheSize:
        """Return how full the cache is."""
        entries, each = len(self) + len(self._older), self._most_entry_bytes
        return CacheSize(self._name, entries, entries * each, self.most_entries * each)


class _Kept(OrderedDict[H, V]):
    """Values by key, in the order in which they were last used; for a key that is not kept, UNKNOWN."""

    def __missing__(self, key: H) -> V:
        return cast("V", UNKNOWN)


class LruCache(Generic[H, V]):
    """Values by key. The least recently used go first where they are too many, or take too many bytes together.

    What takes more than a quarter of `most_bytes` alone is not kept. Without a `name` it is not listed: it is a part of
    a cache that is; or an index, which whoever changes its objects keeps up to date, so that what it holds follows from
    these.
    """

    size_bytes = 0

    def __init__(self, name: str | None, *, most_entries: int, most_bytes: int) -> None:
        self.most_entries = most_entries
        self.most_bytes = most_bytes
        self._name = name
        self._kept: _Kept[H, V] = _Kept()
        # Return the value of a key, None if it is not kept; this does not count as a use.
        self.peek = self._kept.get
        self._sizes: dict[H, int] = {}
        if name is not None:
            listed(self)

    def __contains__(self, key: H) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: H) -> V | None:
        """Return the value of a key, None if it is not kept."""
        value = self._kept.get(key)
        if value is not None:
            self._kept.move_to_end(key)
        return value

    def keep(self, key: H, value: V, size_bytes: int) -> None:
        """Keep a value, which takes so many bytes together with its key."""
        if key in self._kept:
            self.forget(key)
        size_bytes += _BYTES_AN_ENTRY
        if 4 * size_bytes > self.most_bytes:
            return
        self._kept[key] = value
        self._sizes[key] = size_bytes
        self.size_bytes += size_bytes
        while len(self._kept) > self.most_entries or self.size_bytes > self.most_bytes:
            self.forget(next(iter(self._kept)))

    def forget(self, key: H) -> None:
        """Forget a key, which need not be kept."""
        if self._kept.pop(key, None) is not None:
            self.size_bytes -= self._sizes.pop(key)

    def clear(self) -> None:
        """Forget all keys."""
        self._kept.clear()
        self._sizes.clear()
        self.size_bytes = 0

    def items(self) -> Iterable[tuple[H, V]]:
        """Return the keys and values, the least recently used first."""
        return self._kept.items()

    def values(self) -> Iterable[V]:
        """Return the values, the least recently used first."""
        return self._kept.values()

    def current_size(self) -> CacheSize:
        """Return how full the cache is."""
        return CacheSize(self._name or "", len(self._kept), self.size_bytes, self.most_bytes)


class LastFew(Generic[K, V]):
    """The last few values, as `entries` of key, value and size: the oldest first, which goes first.

    The caller compares the keys. What takes more than `most_entry_bytes` is not kept. Without a `name` it is not
    listed: it is a part of a cache that is.
    """

    def __init__(self, name: str | None, *, most_entries: int, most_entry_bytes: int) -> None:
        self.entries: deque[tuple[K, V, int]] = deque(maxlen=most_entries)
        self.most_entries = most_entries
        self._name = name
        self._most_entry_bytes = most_entry_bytes
        if name is not None:
            listed(self)

    def keep(self, key: K, value: V, size_bytes: int) -> None:
        """Keep a value, which takes so many bytes together with its key."""
        if size_bytes <= self._most_entry_bytes:
            self.entries.append((key, value, size_bytes))

    def forget(self, is_gone: Callable[[V], bool]) -> None:
        """Forget the values for which a function returns that."""
        self.entries = deque([entry for entry in self.entries if not is_gone(entry[1])], maxlen=self.most_entries)

    def current_size(self) -> CacheSize:
        """Return how full the cache is."""
        size_bytes, most_bytes = sum(size for _, _, size in self.entries), self.most_entries * self._most_entry_bytes
        return CacheSize(self._name or "", len(self.entries), size_bytes, most_bytes)


def size_of(thing: object, most: int = 1 << 24) -> int:
    """Return about how many bytes a value takes: of texts, numbers, arrays, and what is made of these.

    What it refers to twice counts twice. An object of any other class counts by itself alone. Something above `most`
    is returned as soon as there is more, so that this takes no longer than it takes to reach that.
    """
    total = 0
    left = [thing]
    while left and total <= most:
        item = left.pop()
        kind = type(item)
        total += getsizeof(item)
        if kind is str:
            continue
        if kind is tuple or kind is frozenset or kind is list or kind is set:
            left += cast("list[object]", item)
        elif isinstance(item, msgspec.Struct):
            left += msgspec.structs.astuple(item)
        elif kind is dict:
            item = cast("dict[object, object]", item)
            left += item.keys()
            left += item.values()
        elif isinstance(item, np.ndarray) and item.base is not None:
            left.append(item.base)  # a view does not count what it shows, and keeps all of it
    return total

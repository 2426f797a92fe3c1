"""Caches by value, made in one place, each within a bound in bytes.

The keys of a cache come from pods, callers and objects, which may make them as large as they like. So a cache keeps no
entry above a given size, and takes at most its number of entries times that size. `caches` lists all of them:

- `cached` for the result of a function, which depends on its arguments alone;
- `LruCache` for values that do not come from a function call, or whose size is known only once they exist;
- `LastFew` for keys that are compared by something other than a hash, such as by identity.
"""

from collections import Counter, deque
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

# Bytes that a map takes for an entry, bookkeeping of the cache included.
_BYTES_AN_ENTRY = 250
# The last keys of which it is known that they were asked for once: those of a few dozen pods.
_MOST_ASKED_ONCE = 256

_UNKNOWN = object()


class CacheSize(NamedTuple):
    """How full a cache is. `size_bytes` is an upper estimate, and never exceeds `most_bytes`."""

    name: str
    entries: int
    size_bytes: int
    most_bytes: int


class Cache(Protocol):
    """A cache that `caches` can list."""

    def current_size(self) -> CacheSize:
        """Return how full the cache is."""


_functions: "dict[str, _Results]" = {}
_objects: WeakSet[Cache] = WeakSet()


def caches() -> list[CacheSize]:
    """Return the size of each cache, by name. Caches with the same name, such as those of two clusters, are summed."""
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
    """Add a cache to the list of `caches`, which holds a weak reference to it."""
    _objects.add(cache)


def cached(
    name: str,
    *,
    most_entries: int,
    most_entry_bytes: int,
    most_size: int | None,
    size: Callable[[Any], int] = len,
) -> Callable[[Callable[[*A], R]], Callable[[*A], R]]:
    """Cache the results of a function by its arguments.

    `size` measures the first argument. For one larger than `most_size`, the result is computed each time and not kept.
    The other arguments must be small, or come from the program itself; with `most_size` None, so must the first.
    `most_entry_bytes` is the most that an entry may take: the arguments, the result, and about 250 bytes of the cache.

    The function may raise; errors are not kept. It takes positional arguments only.
    """

    def decorate(function: Callable[[*A], R]) -> Callable[[*A], R]:
        compute = cast("Callable[..., R]", function)
        takes_one = function.__code__.co_argcount == 1

        measure = None if most_size is None else (size, most_size)
        results = _Results(name, compute, measure, most_entries, most_entry_bytes, takes_one=takes_one)
        known = results.__getitem__

        @wraps(function)
        def of_many(*arguments: Any) -> Any:
            return known(arguments)

        assert name not in _functions
        _functions[name] = results
        # A hit for a single argument runs no Python code.
        return cast("Callable[[*A], R]", known if takes_one else of_many)

    return decorate


class _Generations(dict[H, V]):
    """Entries in two generations, which approximates LRU: those not used while half of the entries are added are gone.

    So a look-up of an entry that is kept costs no more than in the dict that the younger generation is.
    """

    # Only ever replaced, and empty until then.
    _older: dict[H, V] = {}

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or key in self._older

    def __len__(self) -> int:
        return dict.__len__(self) + len(self._older)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__  # type: ignore[assignment]

    def _grow_older(self) -> None:
        self._older = dict.copy(self)
        dict.clear(self)


class _Results(_Generations[Any, Any]):
    """Results of a function by its arguments. Only small keys are kept, so only a miss has to measure the size."""

    def __init__(
        self,
        name: str,
        compute: Callable[..., Any],
        measure: tuple[Callable[[Any], int], int] | None,
        most_entries: int,
        most_entry_bytes: int,
        *,
        takes_one: bool,
    ) -> None:
        """A key is the only argument if the function `takes_one`, else a tuple of all. `measure` has the size of the
        first, and the most that is kept."""
        self.most_entries = most_entries
        self._name = name
        self._compute = compute
        self._measure = measure
        self._takes_one = takes_one
        self._most_entry_bytes = most_entry_bytes

    def __missing__(self, key: Any) -> Any:
        # In one step, since plugins' own threads may log.
        result = self._older.pop(key, _UNKNOWN)
        if result is _UNKNOWN:
            takes_one, measure = self._takes_one, self._measure
            result = self._compute(key) if takes_one else self._compute(*key)
            if measure is not None and measure[0](key if takes_one else key[0]) > measure[1]:
                return result
        if dict.__len__(self) >= self.most_entries // 2:
            self._grow_older()
        self[key] = result
        return result

    def current_size(self) -> CacheSize:
        """Return how full the cache is."""
        entries, each = len(self), self._most_entry_bytes
        return CacheSize(self._name, entries, entries * each, self.most_entries * each)


class LruCache(_Generations[H, V]):
    """Values by key, approximately LRU (_Generations); `cache[key]` is `nothing` (None) for a key that is not kept.

    A value that is not used while half of the entries are added, or half of the bytes, is dropped. A value that takes
    more than a quarter of `most_bytes` alone is not kept. `caches` does not list one without a `name`: it is a part of
    a listed cache, or an index of objects whose owner updates it with each change.
    """

    nothing: Any = None
    # Up to so many entries, `admits` returns true from the first time on that a key is asked for.
    few_entries = 16
    most_entries: int
    most_bytes: int
    _name: str | None = None
    _sizes: dict[H, int]
    _older_sizes: dict[H, int] = {}
    _older_bytes = 0
    _bytes = 0
    _asked_once: "AskedOnce | None" = None

    def __init__(self, name: str | None, *, most_entries: int, most_bytes: int) -> None:
        self.most_entries = most_entries
        self.most_bytes = most_bytes
        self._sizes = {}
        if name is not None:
            self._name = name
            listed(self)

    def __missing__(self, key: H) -> V:
        if not self._older or key not in self._older:
            nothing: V = self.nothing
            return nothing
        value, size_bytes = self._older[key], self._older_sizes[key]
        self.keep(key, value, size_bytes - _BYTES_AN_ENTRY)
        return value

    @property
    def size_bytes(self) -> int:
        """How many bytes keys and values take."""
        return self._bytes + self._older_bytes

    def admits(self, key: H) -> bool:
        """Return whether to keep the value of a new key: there are few entries, or the key was asked for before, which
        is noted.

        For keys such as the requests of one pod, which pods alike ask for again, and others never.
        """
        if not self._older and dict.__len__(self) < self.few_entries:
            return True
        if self._asked_once is None:
            self._asked_once = AskedOnce()
        return self._asked_once.is_again(key)

    def keep(self, key: H, value: V, size_bytes: int) -> None:
        """Keep a value; `size_bytes` is the size of key and value together."""
        size_bytes += _BYTES_AN_ENTRY
        before = self._sizes.get(key)
        if before == size_bytes:
            self[key] = value
            return
        if before is not None:
            self._bytes -= self._sizes.pop(key)
            del self[key]
        elif self._older and key in self._older:
            self._older_bytes -= self._older_sizes.pop(key)
            del self._older[key]
        if 4 * size_bytes > self.most_bytes:
            return
        if len(self._sizes) >= self.most_entries // 2 or 2 * (self._bytes + size_bytes) > self.most_bytes:
            self._grow_older()
        self[key] = value
        self._sizes[key] = size_bytes
        self._bytes += size_bytes

    def forget(self, key: H) -> None:
        """Drop a key; nothing happens if it is not kept."""
        self.pop(key, None)
        self._older.pop(key, None)
        self._bytes -= self._sizes.pop(key, 0)
        self._older_bytes -= self._older_sizes.pop(key, 0)

    def clear(self) -> None:
        """Drop all keys."""
        dict.clear(self)
        self._older, self._sizes, self._older_sizes = {}, {}, {}
        self._bytes = self._older_bytes = 0

    def items(self) -> Iterable[tuple[H, V]]:  # type: ignore[override]
        """Return the keys and values."""
        return [*self._older.items(), *dict.items(self)]

    def values(self) -> Iterable[V]:  # type: ignore[override]
        """Return the values."""
        return [*self._older.values(), *dict.values(self)]

    def current_size(self) -> CacheSize:
        """Return how full the cache is."""
        return CacheSize(self._name or "", len(self), self.size_bytes, self.most_bytes)

    def _grow_older(self) -> None:
        super()._grow_older()
        self._older_sizes, self._sizes = self._sizes, {}
        self._older_bytes, self._bytes = self._bytes, 0


class AskedOnce:
    """Notes which keys were asked for once, of the last few: by hash, so that they take no room.

    Two keys may share a hash: then one of them counts as asked for again a little early.
    """

    def __init__(self) -> None:
        self._hashes: dict[int, None] = {}

    def is_again(self, key: Hashable) -> bool:
        """Return whether a key was asked for before; note that it is."""
        asked, hashes = hash(key), self._hashes
        if asked in hashes:
            return True
        if len(hashes) >= _MOST_ASKED_ONCE:
            del hashes[next(iter(hashes))]
        hashes[asked] = None
        return False


class LastFew(Generic[K, V]):
    """The last few values, as `entries` of key, value and size. The oldest is first, and is dropped first.

    The caller compares the keys. An entry of more than `most_entry_bytes` is not kept. `caches` does not list one
    without a `name`: it is a part of a listed cache.
    """

    def __init__(self, name: str | None, *, most_entries: int, most_entry_bytes: int) -> None:
        self.entries: deque[tuple[K, V, int]] = deque(maxlen=most_entries)
        self.most_entries = most_entries
        self._name = name
        self._most_entry_bytes = most_entry_bytes
        if name is not None:
            listed(self)

    def keep(self, key: K, value: V, size_bytes: int) -> None:
        """Keep a value; `size_bytes` is the size of key and value together."""
        if size_bytes <= self._most_entry_bytes:
            self.entries.append((key, value, size_bytes))

    def forget(self, is_gone: Callable[[V], bool]) -> None:
        """Drop the values for which `is_gone` returns true."""
        self.entries = deque([entry for entry in self.entries if not is_gone(entry[1])], maxlen=self.most_entries)

    def current_size(self) -> CacheSize:
        """Return how full the cache is."""
        size_bytes, most_bytes = sum(size for _, _, size in self.entries), self.most_entries * self._most_entry_bytes
        return CacheSize(self._name or "", len(self.entries), size_bytes, most_bytes)


def size_of(thing: object, most: int = 1 << 24) -> int:
    """Estimate how many bytes a value takes, with the texts, numbers, arrays and containers in it.

    An object that is referred to twice counts twice. Of other classes, only the object itself counts. Counting stops
    at the first sum above `most`, and returns that, so the time is bounded too.
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
            left.append(item.base)  # getsizeof of a view leaves out the array that it keeps alive
    return total

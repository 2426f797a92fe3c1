"""Caches by value, made in one place, each within a bound in bytes.

Pods, callers and objects make up what a cache is asked by. So a cache does not keep what is too large, and holds at
most its number of entries times the most that one may take. `caches` lists them all.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar, TypeVarTuple, cast

A = TypeVarTuple("A")
R = TypeVar("R")


class CacheSize(NamedTuple):
    """How full a cache is: `size_bytes` is an estimate from above, and never more than `most_bytes`."""

    name: str
    entries: int
    size_bytes: int
    most_bytes: int


_functions: dict[str, Callable[[], CacheSize]] = {}


def caches() -> list[CacheSize]:
    """Return the size of each cache, by name."""
    return [size() for _, size in sorted(_functions.items())]


def cached(
    *, most_entries: int, most_entry_bytes: int, most_size: int, size: Callable[[Any], int] = len
) -> Callable[[Callable[[*A], R]], Callable[[*A], R]]:
    """Keep the results of a function by its arguments, in `functools.lru_cache` behind a size guard.

    `size` measures the first argument: a call with a larger one than `most_size` computes its result and keeps nothing.
    The other arguments are small, or the program's own. `most_entry_bytes` is the most that an entry may take:
    arguments of that size, the result, and some 300 bytes of the cache itself.
    """

    def decorate(function: Callable[[*A], R]) -> Callable[[*A], R]:
        compute = cast("Callable[..., R]", function)
        known = lru_cache(maxsize=most_entries)(compute)

        @wraps(function)
        def of_one(argument: Any) -> R:
            return known(argument) if size(argument) <= most_size else compute(argument)

        @wraps(function)
        def of_many(first: Any, *others: Any) -> R:
            return known(first, *others) if size(first) <= most_size else compute(first, *others)

        def current() -> CacheSize:
            entries = known.cache_info().currsize
            return CacheSize(name, entries, entries * most_entry_bytes, most_entries * most_entry_bytes)

        name = f"{function.__module__.removeprefix('extender_service.')}.{function.__name__}"
        _functions[name] = current
        return cast("Callable[[*A], R]", of_one if function.__code__.co_argcount == 1 else of_many)

    return decorate

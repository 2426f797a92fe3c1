"""Results that are kept while the data that they were computed from stays the same."""

from abc import abstractmethod
from collections.abc import Callable, Hashable
from functools import partial
from types import FunctionType
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.caches import LastFew, LruCache, size_of

T = TypeVar("T")
V = TypeVar("V", bound=np.generic)

# Versions that are compared by value; any other is compared by identity.
_VALUES = frozenset((int, tuple, dict))
# What arguments take at most, for each byte of their encoding: sets of the shortest texts take the most.
_BYTES_A_BYTE = 60
# An object that cannot be encoded is small, such as a function or a label column.
_encode = msgspec.msgpack.Encoder(enc_hook=lambda _: None).encode

# One decision looks at the nodes it was given, at those that most plugins accept, and at those that all plugins accept;
# the next decision mostly at the same ones.
MOST_SELECTIONS = 4
_MOST_ENTRIES = 64
_MOST_BYTES_A_NODE = 512
# Of keys, whose content pod authors may choose, and of small results.
_MOST_BYTES_BESIDES = 1 << 20


def read_only(array: NDArray[V]) -> NDArray[V]:
    """Return the same numbers as an array that cannot be written to: a plugin that tries gets an error."""
    locked = array.view()
    locked.setflags(write=False)
    return locked


def require_lasting(function: Callable[..., object]) -> None:
    """Raise TypeError for a function that is created again in each call, and so is another key each time."""
    is_local = isinstance(function, FunctionType) and "<locals>" in function.__qualname__
    if is_local or isinstance(function, partial):
        raise TypeError(
            f"{function!r} is another function in each call, so its result would never be found again: "
            "give a function of a module or a method, and what it depends on as arguments"
        )


class VersionedResults(dict[Hashable, tuple[object, Any, int]]):
    """Results by function and arguments, each of which holds while its version is equal.

    A version is a count of changes, a tuple of counts, or a map, which are compared by value; or the very object that
    the result was computed from, such as a label column, a tuple of these, or an array of scores, which is compared by
    identity. What a version holds is not counted. Since results that hold no longer are replaced, it never has to be
    emptied.

    An entry is the version, the result, and the bytes of the arguments; the look-up of another key returns `nothing`.
    A subclass decides what is kept, and for how long.
    """

    # At a version that no other is.
    nothing: tuple[object, Any, int] = (object(), None, -1)

    def of(
        self,
        version: object,
        function: Callable[..., T],
        given: tuple[object, ...],
        arguments: tuple[Hashable, ...] = (),
    ) -> T:
        """Return `function(*given, *arguments)`, from the last time if the arguments and the version are the same.

        An array is returned so that it cannot be written to. Raises TypeError for a function that would not be found
        again, and for arguments that cannot be hashed.
        """
        result: T
        key = (function, arguments)
        known, result, argument_bytes = self[key]
        if known is version or (type(version) in _VALUES and type(known) is type(version) and known == version):
            return result
        if argument_bytes < 0 and "<locals>" in getattr(function, "__qualname__", "<locals>"):
            require_lasting(function)
        computed: Any = function(*given, *arguments)
        if isinstance(computed, np.ndarray):
            computed = read_only(computed)
        result = computed
        if argument_bytes >= 0 or not arguments or self.admits(key):
            self._keep_at(version, key, result, argument_bytes)
        return result

    @abstractmethod
    def admits(self, key: Hashable) -> bool:
        """Return whether to keep the result for a new key. Results of functions without arguments are always kept."""

    @abstractmethod
    def _keep_at(self, version: object, key: tuple[Any, Any], result: object, argument_bytes: int) -> None:
        """Keep a result; `argument_bytes` are those of the entry before it, -1 if there is none."""


class Memo(LruCache[Hashable, tuple[object, Any, int]], VersionedResults):
    """Results that are kept until they are not used for a while (LruCache).

    Beyond a few, the result for some arguments is kept from the second time on that it is asked for: what depends on
    the labels or the requests of one pod is often never asked for again.
    """

    nothing = VersionedResults.nothing

    def _keep_at(self, version: object, key: tuple[Any, Any], result: object, argument_bytes: int) -> None:
        if argument_bytes < 0:
            argument_bytes = self._bytes_of_arguments(key[1]) if key[1] else 0
        size_bytes = result.nbytes if isinstance(result, np.ndarray) else self._bytes_of(result)
        self.keep(key, (version, result, argument_bytes), size_bytes + argument_bytes)

    def _bytes_of_arguments(self, arguments: tuple[Hashable, ...]) -> int:
        try:
            return _BYTES_A_BYTE * len(_encode(arguments))
        except (OverflowError, UnicodeError, RecursionError):
            return size_of(arguments, self.most_bytes)

    def _bytes_of(self, result: object) -> int:
        """Return how many bytes a result takes that is no array."""
        return size_of(result, self.most_bytes)


class RowMemo(Memo):
    """A memo for the nodes in some `rows` of a table, None for all of it, for as long as their facts do not change."""

    _selections: "LastFew[bytes, RowMemo] | None" = None
    # Those that were asked for once.
    _other_selections: "LastFew[bytes, None] | None" = None

    def __init__(self, rows: NDArray[np.intp] | None, size: int) -> None:
        super().__init__(None, most_entries=_MOST_ENTRIES, most_bytes=_MOST_BYTES_A_NODE * size + _MOST_BYTES_BESIDES)
        self.rows = rows
        self.size = size

    def all(self) -> "list[RowMemo]":
        """Return this and the memos of selections of these nodes."""
        selections = [] if self._selections is None else self._selections.entries
        return [self, *(memo for _, memo, _ in selections)]

    @property
    def entry_count(self) -> int:
        """How many results there are, those of selections of these nodes among them."""
        return sum(len(memo) for memo in self.all())

    @property
    def most_entry_count(self) -> int:
        """How many there may be, if these are all nodes: selections of selections are not kept."""
        return self.most_entries * (1 + MOST_SELECTIONS)

    def at(self, positions: NDArray[np.intp]) -> "RowMemo | BriefMemo":
        """Return the memo of the nodes at some positions of these."""
        if self.rows is not None:
            return BriefMemo(self.rows[positions], len(positions))
        if self._selections is None or self._other_selections is None:
            self._selections = LastFew(None, most_entries=MOST_SELECTIONS, most_entry_bytes=1 << 62)
            self._other_selections = LastFew(None, most_entries=MOST_SELECTIONS, most_entry_bytes=1 << 62)
        selection = positions.tobytes()
        for known, memo, _ in self._selections.entries:
            if known == selection:
                return memo
        if not any(known == selection for known, _, _ in self._other_selections.entries):
            # Pods of which no two are alike fit on other nodes each: then what is kept would never be found.
            self._other_selections.keep(selection, None, len(selection))
            return BriefMemo(positions, len(positions))
        memo = RowMemo(positions, len(positions))
        self._selections.keep(selection, memo, 2 * len(selection))
        return memo

    def _bytes_of(self, result: object) -> int:
        if isinstance(result, msgspec.Struct):
            return size_of(result, self.most_bytes)
        # It may hold two arrays: rejections have a key for each node, and the positions of those rejected.
        return 2 * 8 * self.size


class BriefMemo(VersionedResults):
    """A memo of some rows that lasts for one decision: it keeps the first few results, and does not measure them."""

    def __init__(self, rows: NDArray[np.intp], size: int) -> None:
        self.rows = rows
        self.size = size

    def __missing__(self, key: Hashable) -> tuple[object, Any, int]:
        return self.nothing

    def at(self, positions: NDArray[np.intp]) -> "BriefMemo":
        """Return the memo of the nodes at some positions of these."""
        return BriefMemo(self.rows[positions], len(positions))

    def admits(self, _key: Hashable) -> bool:
        """Return true: within one decision, most results are asked for again."""
        return True

    def _keep_at(self, version: object, key: tuple[Any, Any], result: object, _argument_bytes: int) -> None:
        if len(self) < _MOST_ENTRIES:
            self[key] = (version, result, 0)


class NoMemo:
    """Rows like those of a RowMemo, for a single use: every result is computed."""

    def __init__(self, rows: NDArray[np.intp]) -> None:
        self.rows = rows
        self.size = len(rows)

    def at(self, positions: NDArray[np.intp]) -> "NoMemo":
        """Return the rows at some positions of these."""
        return NoMemo(self.rows[positions])

    def of(
        self,
        _version: object,
        function: Callable[..., T],
        given: tuple[object, ...],
        arguments: tuple[Hashable, ...] = (),
    ) -> T:
        """Return `function(*given, *arguments)`."""
        return function(*given, *arguments)

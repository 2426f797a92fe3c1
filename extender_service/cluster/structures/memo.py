"""Results that hold while what they were computed from is the same."""

from collections.abc import Callable, Hashable
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from extender_service.caches import LastFew, LruCache, size_of

T = TypeVar("T")
V = TypeVar("V", bound=np.generic)

# Versions that are compared by value; any other is compared by identity.
_VALUES = frozenset((int, tuple, dict))
# What a key takes at most, by the length of its text: of the smallest texts and tuples, which take the most.
_BYTES_A_CHARACTER = 40

# One decision looks at the nodes asked about, those that most plugins leave, and those that all do; the next decision
# mostly at the same ones.
_MOST_SELECTIONS = 4
_MOST_ENTRIES = 64
_MOST_BYTES_A_NODE = 512
# Of keys, which pods may make up, and of small results.
_MOST_BYTES_BESIDES = 1 << 20


def read_only(array: NDArray[V]) -> NDArray[V]:
    """Return the same numbers as an array that cannot be written to: a plugin that tries gets an error."""
    locked = array.view()
    locked.flags.writeable = False
    return locked


def require_lasting(function: Callable[..., object]) -> None:
    """Raise TypeError for a function that is made anew in each call, and so is another key each time."""
    if type(function) is FunctionType and "<locals>" not in function.__qualname__:
        return
    if isinstance(function, FunctionType | partial):
        raise TypeError(
            f"{function!r} is another function in each call, so its result would never be found again: "
            "give a function of a module or a method, and what it depends on as arguments"
        )


class Memo(LruCache[Hashable, tuple[object, Any]]):
    """Results by function and arguments, each of which holds while its version is equal.

    A version is a count of changes, a tuple of counts, or a map, which are compared by value; or the very object that
    the result was computed from, such as a label column or an array of scores, which is compared by identity. Since
    results that hold no longer are replaced, and the least recently used go first, it never has to be emptied.
    """

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
        known, result = self._kept[key]
        if known is version or (type(version) in _VALUES and known == version):
            self._kept.move_to_end(key)
            return result
        require_lasting(function)
        result = function(*given, *arguments)
        if isinstance(result, np.ndarray):
            result = cast("T", read_only(result))
        self.keep(key, (version, result), _BYTES_A_CHARACTER * len(repr(arguments)) + self._bytes_of(result))
        return result

    def _bytes_of(self, result: object) -> int:
        return size_of(result, self.most_bytes)


class NodeMemo(Memo):
    """What was computed for the nodes in some `rows` of a table, None for all of it; good until a fact changes.

    The table has one for all of its nodes, and makes another whenever the facts of a node change.
    """

    def __init__(self, rows: NDArray[np.intp] | None, size: int) -> None:
        super().__init__(None, most_entries=_MOST_ENTRIES, most_bytes=_MOST_BYTES_A_NODE * size + _MOST_BYTES_BESIDES)
        self.rows = rows
        self.size = size
        self._selections: LastFew[bytes, NodeMemo] | None = None

    @property
    def entry_count(self) -> int:
        """How many results there are, those of selections of these nodes among them."""
        selections = [] if self._selections is None else self._selections.entries
        return len(self) + sum(len(memo) for _, memo in selections)

    @property
    def most_entry_count(self) -> int:
        """How many there may be, if these are all nodes: selections of selections are not kept."""
        return self.most_entries * (1 + _MOST_SELECTIONS)

    def at(self, positions: NDArray[np.intp]) -> "NodeMemo":
        """Return the memo of the nodes at some positions of these."""
        if self.rows is not None:
            return NodeMemo(self.rows[positions], len(positions))
        if self._selections is None:
            self._selections = LastFew(None, most_entries=_MOST_SELECTIONS, most_entry_bytes=1 << 62)
        selection = positions.tobytes()
        for known, memo in self._selections.entries:
            if known == selection:
                return memo
        memo = NodeMemo(positions, len(positions))
        self._selections.keep(selection, memo, 2 * len(selection))
        return memo

    def _bytes_of(self, result: object) -> int:
        # What is no array may hold two: rejections have a key for each node, and the positions of those rejected.
        return result.nbytes if isinstance(result, np.ndarray) else 2 * 8 * self.size

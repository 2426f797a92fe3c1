"""Columns that follow a log of changes: computed once, then brought up to date by what changed since."""

from abc import abstractmethod
from collections.abc import Callable, Hashable
from functools import cached_property
from operator import call, itemgetter
from typing import Any, Protocol, TypeVar
from weakref import ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.caches import LastFew, LruCache, size_of
from extender_service.cluster.structures.change_log import ChangeLog
from extender_service.cluster.structures.memo import NoMemo, read_only

H = TypeVar("H", bound=Hashable)
F = TypeVar("F", bound="Following")

# A larger result is not kept: a pod may request thousands of made-up resources, each of which is a number per row.
_MOST_NUMBERS_A_ROW = 32
_MOST_COLUMNS = 128
# Of which so many are brought up to date ahead: about as many as one decision uses.
_MOST_LAST_USED = 16
# Of all columns together. Most have a number or a truth value a row.
_MOST_BYTES_A_ROW = 2 << 10
# Of their keys, whose content pod authors choose.
_MOST_KEYS_BYTES = 4 << 20

# Rows that changed, up to which their states are looked up one by one; more are computed together in less time.
_FEW_ROWS = 16
# Of states whose values are kept, for each column.
_MOST_STATES = 256
_MOST_STATES_BYTES = 96 << 10

Compute = Callable[[Hashable, NoMemo], NDArray[Any]]
"""From a key and some rows to an array whose last axis has an entry for each of them."""


class Following(Protocol):
    """A column, and the number of the last change that it has taken over."""

    change_count: int


class FollowingColumns(LruCache[H, F]):
    """Columns by key, each of which follows the same log of changes from when it was computed.

    Between two decisions that is a handful of changes, whatever the size of the cluster. A subclass defines how changes
    are applied to a column.
    """

    def __init__(self, name: str | None, changes: ChangeLog[Any], *, most_entries: int, most_bytes: int) -> None:
        super().__init__(name, most_entries=most_entries, most_bytes=most_bytes)
        self.changes = changes

    def current(self, key: H, context: Any = None) -> F | None:
        """Return the column of a key as it is after the last change; None if it has to be computed again."""
        column: F | None = self[key]
        if column is None:
            return None
        if column.change_count != self.changes.count and not self._catch_up(column, context):
            self.forget(key)
            return None
        return column

    def _catch_up(self, column: F, context: Any) -> bool:
        changed = self._changed_since(column.change_count)
        if changed is None or not self._follow(column, changed, context):
            return False
        column.change_count = self.changes.count
        return True

    def _changed_since(self, count: int) -> Any:
        """Return what changed since a count, in the form that `_follow` takes; None if the log forgot some of it."""
        return self.changes.since(count)

    @abstractmethod
    def _follow(self, column: F, changes: Any, context: Any) -> bool:
        """Apply changes; returns False where the column has to be computed again, or that costs less."""


class RowColumn(msgspec.Struct, eq=False, weakref=True):
    """Values by row, along the last axis, which are brought up to date in place.

    `shown` are the same values for callers, who cannot write to them. It is another array after each change, so that
    results can be remembered for as long as the array is the same.
    """

    key: Hashable
    values: NDArray[Any]
    shown: NDArray[Any]
    change_count: int
    # The values of a row in a state, which are those of any other row in it.
    by_state: LruCache[bytes, NDArray[Any]]


class _ChangedRows:
    """Rows that changed; where they are few, and their values follow from states, the state of each."""

    def __init__(self, rows: list[int], state_of: Callable[[int], bytes] | None) -> None:
        self.rows = rows
        # A column with fewer rows lacks one of these, or is computed again at less cost.
        self.least_size = max(2 * len(rows), max(rows) + 1)
        self.states = None if state_of is None or len(rows) > _FEW_ROWS else [state_of(row) for row in rows]

    @cached_property
    def alone(self) -> NoMemo:
        return NoMemo(np.array(self.rows, np.intp))


class RowColumns(FollowingColumns[Hashable, RowColumn]):
    """Arrays by key, whose last axis is the row; the log has the rows that changed.

    With `state_of`, the values of a row follow from the key and from what that returns for the row: they are looked up
    where a row was in that state before, as where many nodes are alike and take pods that are alike. There is a change
    of each new row.

    The columns do not hold what computes them: the caller gives it each time, as `compute`.
    """

    def __init__(
        self,
        name: str | None,
        changes: ChangeLog[int],
        state_of: Callable[[int], bytes] | None = None,
        most_entries: int = _MOST_COLUMNS,
    ) -> None:
        self._bytes_besides = _MOST_KEYS_BYTES + (0 if state_of is None else _MOST_COLUMNS * _MOST_STATES_BYTES)
        super().__init__(name, changes, most_entries=most_entries, most_bytes=self._bytes_besides)
        self._state_of = state_of
        # The columns that decisions used last. A key takes longer to compare than a column.
        self._last_used: LastFew[ref[RowColumn], None]
        self._last_used = LastFew(None, most_entries=_MOST_LAST_USED, most_entry_bytes=0)
        self._caught_up_at = 0
        # What changed between two counts of changes: columns that were used together ask for the same.
        self._span = (0, 0)
        self._changed: _ChangedRows | None = None

    def current(self, key: Hashable, context: Compute | None = None) -> RowColumn | None:
        """Return the column of a key like `FollowingColumns`, and note that it is used."""
        column = super().current(key, context)
        if column is not None:
            self._last_used.entries.append((ref(column), None, 0))
        return column

    def start(self, key: Hashable, size: int, compute: Compute) -> NDArray[Any]:
        """Compute the array of a key for `size` rows, keep it, and return it so that it cannot be written to.

        It holds until the table changes next: what is kept is brought up to date in place.
        """
        values = compute(key, NoMemo(np.arange(size)))
        # What is shared with others cannot be brought up to date in place.
        values = values if values.flags.writeable else values.copy()
        shown = read_only(values)
        if values.size <= _MOST_NUMBERS_A_ROW * size:
            self.most_bytes = self._bytes_besides + _MOST_BYTES_A_ROW * size
            size_bytes = values.nbytes + size_of(key, self.most_bytes)
            by_state: LruCache[bytes, NDArray[Any]]
            by_state = LruCache(None, most_entries=_MOST_STATES, most_bytes=_MOST_STATES_BYTES)
            if self._state_of is not None:
                size_bytes += by_state.most_bytes
            self.keep(key, RowColumn(key, values, shown, self.changes.count, by_state), size_bytes)
        return shown

    def catch_up(self, compute: Compute) -> None:
        """Bring up to date what was used last, so that the next decision need not wait for it.

        What cannot be computed is forgotten: the next plugin that asks for it meets the error.
        """
        count = self.changes.count
        if self._caught_up_at == count:
            return
        self._caught_up_at = count
        for column in dict.fromkeys(map(call, map(itemgetter(0), self._last_used.entries))):
            if column is None or column.change_count == count:
                continue
            try:
                is_caught_up = self._catch_up(column, compute)
            except Exception:
                is_caught_up = False
            if not is_caught_up:
                self.forget(column.key)
        # What no decision uses any more is left out in the end. What each of them uses is noted each time.
        if self._last_used.entries:
            self._last_used.entries.popleft()

    def _changed_since(self, count: int) -> _ChangedRows | None:
        span = (count, self.changes.count)
        if span != self._span:
            changes = self.changes.since(count)
            changed = None if changes is None else _ChangedRows(list(dict.fromkeys(changes)), self._state_of)
            self._span, self._changed = span, changed
        return self._changed

    def _follow(self, column: RowColumn, changes: _ChangedRows, context: Compute) -> bool:
        """Compute the rows that changed; not so many that computing all of them costs less."""
        if changes.least_size > column.values.shape[-1]:
            return False
        states = changes.states
        if states is None:
            _compute(column, changes, context)
        elif not _look_up(column, changes.rows, states):
            values = _compute(column, changes, context)
            for state, of_row in zip(states, values.T.copy(), strict=True):
                column.by_state.keep(state, of_row, len(state) + of_row.nbytes)
        column.shown = column.shown[...]  # another view, in one step
        return True


def _look_up(column: RowColumn, rows: list[int], states: list[bytes]) -> bool:
    """Give rows the values of their states; returns whether all are known."""
    values, by_state = column.values, column.by_state
    for row, state in zip(rows, states, strict=True):
        known: NDArray[Any] | None = by_state[state]
        if known is None:
            return False
        values[..., row] = known
    return True


def _compute(column: RowColumn, changes: _ChangedRows, compute: Compute) -> NDArray[Any]:
    values = compute(column.key, changes.alone)
    column.values[..., changes.rows] = values
    return values

"""What plugins worked out for every row of the node table, kept until the rows change."""

from collections.abc import Callable, Hashable
from functools import cached_property
from itertools import islice
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.structures.change_log import ChangeLog
from extender_service.cluster.structures.memo import NodeMemo

V = TypeVar("V", bound=np.generic)

# What takes more is not worth keeping: a pod may ask for thousands of things that it makes up, each a number per row.
_MOST_NUMBERS_A_ROW = 32

# Rows that changed, up to which their states are looked up one by one; more are worked out together in less time.
_FEW_ROWS = 16
# Of states whose values are remembered, for each column.
_MOST_STATES = 256

# From some rows, by their memo, to an array whose last axis has an entry for each of them.
WorkOut = Callable[[NodeMemo], NDArray[V]]


class _Kept(msgspec.Struct):
    column: NDArray[Any]
    change_count: int
    work_out: WorkOut[Any]
    # What was worked out for a row in a state, which is what any other row has in it.
    by_state: dict[bytes, Any]


class _Changed:
    """Rows that changed; where they are few, and their values follow from states, the state of each."""

    def __init__(self, rows: list[int], state_of: Callable[[int], bytes] | None) -> None:
        self.rows = rows
        self.highest = max(rows)
        self.states = None if state_of is None or len(rows) > _FEW_ROWS else [state_of(row) for row in rows]

    @cached_property
    def memo(self) -> NodeMemo:
        return NodeMemo(np.array(self.rows, np.intp), len(self.rows))


class KeptColumns:
    """Arrays by key, whose last axis is the row. At most `limit` are kept, the least recently asked for goes first.

    The first answer to a key works out all rows; from then on those that changed. Between two decisions that is a
    handful, whatever the size of the cluster. An array of more than 32 numbers a row is not kept.

    With `state_of`, a row's values follow from the key and what that tells of the row: they are looked up where a row
    was in that state before, as where many nodes are alike and take pods that are alike.
    """

    def __init__(self, limit: int = 128, state_of: Callable[[int], bytes] | None = None) -> None:
        self.changes: ChangeLog[int] = ChangeLog()
        self.limit = limit
        self._state_of = state_of
        self._kept: dict[Hashable, _Kept] = {}
        # The rows that changed between two counts of changes: columns that were used together ask for the same.
        self._changed: tuple[int, int, _Changed | None] = (0, 0, None)
        self._caught_up_at = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: Hashable, size: int, work_out: WorkOut[V]) -> NDArray[V]:
        """Return the array of a key for `size` rows; not to be written to.

        It holds until the table changes next: what is kept is brought up to date in place.
        """
        kept = self._kept.pop(key, None)
        if kept is None or kept.column.shape[-1] != size or not self._catch_up(kept):
            column = work_out(NodeMemo(np.arange(size), size))
            # What is shared with others cannot be brought up to date in place.
            kept = _Kept(column if column.flags.writeable else column.copy(), self.changes.count, work_out, {})
            if kept.column.size > _MOST_NUMBERS_A_ROW * size:
                return kept.column
            if len(self._kept) >= self.limit:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = kept
        return kept.column

    def catch_up(self, most: int) -> None:
        """Bring up to date what was asked for last, so that the next to ask need not wait for it.

        What cannot be worked out is forgotten: whoever asks next meets the error.
        """
        if self._caught_up_at == self.changes.count:
            return
        self._caught_up_at = self.changes.count
        for key in list(islice(reversed(self._kept), most)):
            try:
                is_caught_up = self._catch_up(self._kept[key])
            except Exception:
                is_caught_up = False
            if not is_caught_up:
                del self._kept[key]

    def _catch_up(self, kept: _Kept) -> bool:
        """Work out the rows that changed; not so many that working out all of them costs less."""
        count = self.changes.count
        if kept.change_count == count:
            return True
        if self._changed[:2] != (kept.change_count, count):
            self._changed = (kept.change_count, count, self._changed_since(kept.change_count))
        changed, size = self._changed[2], kept.column.shape[-1]
        if changed is None or 2 * len(changed.rows) > size or changed.highest >= size:
            return False
        if changed.states is None or not _look_up(kept, changed.rows, changed.states):
            _work_out(kept, changed)
        kept.change_count = count
        return True

    def _changed_since(self, count: int) -> _Changed | None:
        changes = self.changes.since(count)
        return None if changes is None else _Changed(list(dict.fromkeys(changes)), self._state_of)


def _look_up(kept: _Kept, rows: list[int], states: list[bytes]) -> bool:
    """Give rows the values of their states; tells whether all are known."""
    column, by_state = kept.column, kept.by_state
    for row, state in zip(rows, states, strict=True):
        value = by_state.get(state)
        if value is None:
            return False
        if column.ndim == 1:
            column[row] = value
        else:
            column[:, row] = value
    return True


def _work_out(kept: _Kept, changed: _Changed) -> None:
    values = kept.work_out(changed.memo)
    if kept.column.ndim == 1:
        kept.column[changed.rows] = values
    else:
        kept.column[:, changed.rows] = values
    if changed.states is None:
        return
    if len(kept.by_state) + len(changed.states) > _MOST_STATES:
        kept.by_state.clear()
    kept.by_state.update(zip(changed.states, values.T.copy(), strict=True))

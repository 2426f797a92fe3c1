"""What plugins worked out for every row of the node table, kept until the rows change."""

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.change_log import ChangeLog
from extender_service.cluster.remembered import Remembered

V = TypeVar("V", bound=np.generic)

# What takes more is not worth keeping: a pod may ask for thousands of things that it makes up, each a number per row.
_MOST_NUMBERS_A_ROW = 32

# From some rows, by what is remembered of them, to an array whose last axis has an entry for each of them.
WorkOut = Callable[[Remembered], NDArray[V]]


class _Kept(msgspec.Struct):
    column: NDArray[Any]
    change_count: int
    work_out: WorkOut[Any]


class _Rows(NamedTuple):
    rows: NDArray[np.intp]
    remembered: Remembered


class KeptColumns:
    """Arrays by key, whose last axis is the row. At most `limit` are kept, the least recently asked for goes first.

    The first answer to a key works out all rows; from then on those that changed. Between two decisions that is a
    handful, whatever the size of the cluster. An array of more than 32 numbers a row is not kept.
    """

    def __init__(self, limit: int = 128) -> None:
        self.changes: ChangeLog[int] = ChangeLog()
        self.limit = limit
        self._kept: dict[Hashable, _Kept] = {}
        # The rows that changed between two counts of changes: columns that were used together ask for the same.
        self._changed: tuple[int, int, _Rows | None] = (0, 0, None)
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
            column = work_out(Remembered(np.arange(size), size))
            # What is shared with others cannot be brought up to date in place.
            kept = _Kept(column if column.flags.writeable else column.copy(), self.changes.count, work_out)
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
        if changed is None or 2 * len(changed.rows) > size or changed.rows.max() >= size:
            return False
        values = kept.work_out(changed.remembered)
        if kept.column.ndim == 1:
            kept.column[changed.rows] = values
        else:
            kept.column[:, changed.rows] = values
        kept.change_count = count
        return True

    def _changed_since(self, count: int) -> _Rows | None:
        changes = self.changes.since(count)
        if changes is None:
            return None
        rows = np.array(list(dict.fromkeys(changes)), np.intp)
        return _Rows(rows, Remembered(rows, len(rows)))

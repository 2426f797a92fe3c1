"""What plugins worked out for every row of the node table, kept until the rows change."""

from collections.abc import Callable, Hashable

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.change_log import ChangeLog

# From row numbers to an array whose last axis has an entry for each of them.
WorkOut = Callable[[NDArray[np.intp]], NDArray[np.generic]]


class _Kept(msgspec.Struct, gc=False):
    column: NDArray[np.generic]
    change_count: int


class KeptColumns:
    """Arrays by key, whose last axis is the row. At most `limit` are kept, the least recently asked for goes first.

    The first answer to a key works out all rows; from then on those that changed. Between two decisions that is a
    handful, whatever the size of the cluster.
    """

    def __init__(self, limit: int = 128) -> None:
        self.changes: ChangeLog[int] = ChangeLog()
        self._limit = limit
        self._kept: dict[Hashable, _Kept] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, key: Hashable, size: int, work_out: WorkOut) -> NDArray[np.generic]:
        """Return the array of a key for the first `size` rows, or more; not to be written to.

        It holds until the table changes next: what is kept is brought up to date in place.
        """
        kept = self._kept.pop(key, None)
        changed = None if kept is None else self._changed_since(kept.change_count)
        if kept is None or changed is None or 2 * len(changed) > size or kept.column.shape[-1] < size:
            kept = _Kept(work_out(np.arange(size)), self.changes.count)
            if len(self._kept) >= self._limit:
                del self._kept[next(iter(self._kept))]
        elif len(changed):
            kept.column[..., changed] = work_out(changed)
            kept.change_count = self.changes.count
        self._kept[key] = kept
        return kept.column

    def _changed_since(self, count: int) -> NDArray[np.intp] | None:
        rows = self.changes.since(count)
        return None if rows is None else np.array(list(dict.fromkeys(rows)), np.intp)

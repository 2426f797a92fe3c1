"""What plugins worked out for every row of the node table, kept until the rows change."""

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.change_log import ChangeLog

V = TypeVar("V", bound=np.generic)

# From row numbers to an array whose last axis has an entry for each of them.
WorkOut = Callable[[NDArray[np.intp]], NDArray[V]]


class _Kept(msgspec.Struct):
    column: NDArray[Any]
    change_count: int
    work_out: WorkOut[Any]


class KeptColumns:
    """Arrays by key, whose last axis is the row. At most `limit` are kept, the least recently asked for goes first.

    The first answer to a key works out all rows; from then on those that changed. Between two decisions that is a
    handful, whatever the size of the cluster.
    """

    def __init__(self, limit: int = 128) -> None:
        self.changes: ChangeLog[int] = ChangeLog()
        self.limit = limit
        self._kept: dict[Hashable, _Kept] = {}

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
            if len(self._kept) >= self.limit:
                del self._kept[next(iter(self._kept))]
            kept = _Kept(work_out(np.arange(size)), self.changes.count, work_out)
        self._kept[key] = kept
        return kept.column

    def catch_up(self, most: int) -> None:
        """Bring up to date what was asked for last, so that the next to ask need not wait for it.

        What cannot be worked out is forgotten: whoever asks next meets the error.
        """
        for key in list(islice(reversed(self._kept), most)):
            try:
                is_caught_up = self._catch_up(self._kept[key])
            except Exception:
                is_caught_up = False
            if not is_caught_up:
                del self._kept[key]

    def _catch_up(self, kept: _Kept) -> bool:
        """Work out the rows that changed; not so many that working out all of them costs less."""
        if kept.change_count == self.changes.count:
            return True
        changes = self.changes.since(kept.change_count)
        changed = None if changes is None else list(dict.fromkeys(changes))
        if changed is None or 2 * len(changed) > kept.column.shape[-1] or max(changed) >= kept.column.shape[-1]:
            return False
        kept.column[..., changed] = kept.work_out(np.array(changed, np.intp))
        kept.change_count = self.changes.count
        return True

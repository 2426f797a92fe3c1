"""How many pods that a selector matches are on each node, kept for the selectors that decisions ask for."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.label_sets import PodSelector
from extender_service.cluster.pod_changes import PodChange
from extender_service.cluster.pods import NO_ROW, PodTable


class PodQuery(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Pods that all of the selectors match; those that are being deleted only if `with_terminating`."""

    selectors: tuple[PodSelector, ...]
    with_terminating: bool = True

    def is_about(self, change: PodChange) -> bool:
        """Tell whether a change concerns such a pod."""
        if change.is_terminating and not self.with_terminating:
            return False
        namespace, labels = change.label_set.namespace, change.label_set.labels
        return all(selector.matches(namespace, labels) for selector in self.selectors)


class _Counts(msgspec.Struct, gc=False):
    by_row: NDArray[np.int64]
    change_count: int


class PodCounts:
    """Counts by node row, one array per query. At most `limit` are kept, the least recently asked for goes first.

    The first answer to a query looks at all pods at once; from then on it follows the changes.
    """

    def __init__(self, pods: PodTable, limit: int = 512) -> None:
        self._pods = pods
        self.limit = limit
        self._counts: dict[PodQuery, _Counts] = {}

    def __len__(self) -> int:
        return len(self._counts)

    def by_row(self, query: PodQuery, size: int) -> NDArray[np.int64]:
        """Return the number of such pods on each of the first `size` rows; not to be written to."""
        counts = self._counts.pop(query, None)
        changes = None if counts is None else self._pods.changes.since(counts.change_count)
        if counts is None or changes is None:
            counts = _Counts(self._count(query, size), self._pods.changes.count)
            if len(self._counts) >= self.limit:
                del self._counts[next(iter(self._counts))]
        elif changes:
            for change in changes:
                if query.is_about(change):
                    if change.row >= len(counts.by_row):
                        counts.by_row = _lengthened(counts.by_row, 2 * change.row + 1)
                    counts.by_row[change.row] += change.sign
            counts.change_count = self._pods.changes.count
        if size > len(counts.by_row):
            counts.by_row = _lengthened(counts.by_row, size)
        self._counts[query] = counts
        return counts.by_row[:size]

    def _count(self, query: PodQuery, size: int) -> NDArray[np.int64]:
        pods = self._pods
        used = len(pods.facts)
        rows = pods.row[:used]
        counting = pods.label_sets.matching(query.selectors)[pods.label_set[:used]] & (rows != NO_ROW)
        if not query.with_terminating:
            counting &= ~pods.terminating[:used]
        return np.bincount(rows[counting], minlength=size).astype(np.int64, copy=False)


def _lengthened(by_row: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return np.pad(by_row, (0, size - len(by_row)))

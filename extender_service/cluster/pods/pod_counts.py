"""How many pods that a selector matches are on each node, kept for the selectors that decisions ask for."""

import weakref

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.pods.pod_changes import PodChange
from extender_service.cluster.pods.pod_table import NO_ROW, PodTable
from extender_service.cluster.selection.label_sets import LabelSet, PodSelector

# Of one query: a pod may be spread over zones and racks.
_MOST_SUMS = 2
# Each query may refer to other labels, that no pod has any more.
_MOST_LAST_BYTES = 16 << 10


class PodQuery(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Pods that all of the selectors match; those that are being deleted only if `with_terminating`."""

    selectors: tuple[PodSelector, ...]
    with_terminating: bool = True

    def selects(self, pods: LabelSet) -> bool:
        """Tell whether pods with these labels are such pods, as far as labels tell."""
        return all(selector.matches(pods.namespace, pods.labels) for selector in self.selectors)


class _Sums(msgspec.Struct, gc=False):
    """Counts added up by the number that each row has, of the rows that are included (None: all).

    Once others have forgotten these two arrays, nobody can ask for the sums again.
    """

    numbers: weakref.ref[NDArray[np.intp]]
    included: weakref.ref[NDArray[np.bool_]] | None
    by_value: NDArray[np.int64]

    def are_of(self, numbers: NDArray[np.intp], included: NDArray[np.bool_] | None) -> bool:
        """Tell whether these are the very same arrays."""
        return self.numbers() is numbers and (None if self.included is None else self.included()) is included

    def follow(self, row: int, sign: int) -> bool:
        """Take over that there is a pod more, or less, on a row; returns whether the sums can still be asked for."""
        numbers = self.numbers()
        included = None if self.included is None else self.included()
        if numbers is None or (self.included is not None and included is None):
            return False
        if row < len(numbers) and (included is None or included[row]):
            number = numbers[row]
            if number != ABSENT:
                self.by_value[number] += sign
        return True


class _Counts(msgspec.Struct, gc=False):
    query: PodQuery
    by_row: NDArray[np.int64]
    change_count: int
    sums: list[_Sums]
    # The labels that were looked at last, and whether such pods are selected: one change after the other is of pods
    # that are alike.
    last: LabelSet | None = None
    selects_last: bool = False

    def are_about(self, change: PodChange) -> bool:
        """Tell whether a change is about pods that count."""
        if change.is_terminating and not self.query.with_terminating:
            return False
        label_set = change.label_set
        if label_set is self.last:
            return self.selects_last
        selects = self.query.selects(label_set)
        if label_set.size_bytes <= _MOST_LAST_BYTES:
            self.last, self.selects_last = label_set, selects
        return selects

    def follow(self, row: int, sign: int) -> None:
        """Take over that there is a pod more, or less, on a row."""
        if row >= len(self.by_row):
            self.by_row = _lengthened(self.by_row, 2 * row + 1)
        self.by_row[row] += sign
        if self.sums:
            self.sums = [sums for sums in self.sums if sums.follow(row, sign)]


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
        return self._current(query, size).by_row[:size]

    def by_value(
        self, query: PodQuery, numbers: NDArray[np.intp], size: int, included: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Return the number of such pods for each of `size` numbers of rows, such as those of a label's values.

        Pods count on rows that are `included`, and not where the number is ABSENT; the result has one entry more, of 0,
        for ABSENT to pick. It is not to be written to, and kept for as long as the very same two arrays are given.
        """
        counts = self._current(query, len(numbers))
        for sums in counts.sums:
            if sums.are_of(numbers, included):
                return sums.by_value
        by_row = counts.by_row[: len(numbers)]
        by_value = sum_by_value(numbers, by_row if included is None else np.where(included, by_row, 0), size)
        added = _Sums(weakref.ref(numbers), None if included is None else weakref.ref(included), by_value)
        counts.sums = [*counts.sums[1 - _MOST_SUMS :], added]
        return by_value

    def _current(self, query: PodQuery, size: int) -> _Counts:
        counts = self._counts.pop(query, None)
        changes = None if counts is None else self._pods.changes.since(counts.change_count)
        if counts is None or changes is None:
            counts = _Counts(query, self._count(query, size), self._pods.changes.count, [])
            if len(self._counts) >= self.limit:
                del self._counts[next(iter(self._counts))]
        elif changes:
            for change in changes:
                if counts.are_about(change):
                    counts.follow(change.row, change.sign)
            counts.change_count = self._pods.changes.count
        if size > len(counts.by_row):
            counts.by_row = _lengthened(counts.by_row, size)
        self._counts[query] = counts
        return counts

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


def sum_by_value(numbers: NDArray[np.intp], amounts: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Add up per-node amounts by the number of the node's value, of which there are `size`; ABSENT counts nowhere.

    The result has one entry more, of 0, for ABSENT to pick.
    """
    sums = np.zeros(size + 1, np.int64)
    np.add.at(sums, numbers, amounts)
    sums[ABSENT] = 0
    return sums

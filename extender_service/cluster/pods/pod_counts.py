"""How many pods on each node a selector matches, kept for the selectors that decisions ask for."""

import weakref
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.caches import LastFew, size_of
from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.pods.pod_changes import PodChange
from extender_service.cluster.pods.pod_table import NO_ROW, PodTable
from extender_service.cluster.selection.label_sets import LabelSet, PodSelector
from extender_service.cluster.structures.following_columns import FollowingColumns

MOST_QUERIES = 512
# Of all counts together, and of the queries, whose content pod authors choose.
_MOST_BYTES_A_ROW = 8 << 10
_MOST_BYTES_BESIDES = 8 << 20
# Of what holds the counts and sums of a query.
_BYTES_A_QUERY = 2 << 10
# Of one query: a pod may be spread over zones and racks.
_MOST_SUMS = 2
# Counting all pods again costs less than applying more changes than this, and than one for so many pods.
_FEW_CHANGES, _PODS_A_CHANGE = 64, 1 << 11
# Each query may keep a label set alive that no pod has any more.
_MOST_LAST_BYTES = 16 << 10


class PodQuery(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Pods that all of the selectors match; those that are being deleted only if `with_terminating`."""

    selectors: tuple[PodSelector, ...]
    with_terminating: bool = True

    def selects(self, pods: LabelSet) -> bool:
        """Return whether all selectors match pods with these labels, whether or not those are being deleted."""
        return all(selector.matches(pods.namespace, pods.labels) for selector in self.selectors)


class _Sums(msgspec.Struct, gc=False):
    """Counts added up by the number that each row has, of the rows that are included (None: all).

    They hold only weak references to these two arrays: once one of them is gone, the sums are useless.
    """

    numbers: weakref.ref[NDArray[np.intp]]
    included: weakref.ref[NDArray[np.bool_]] | None
    by_value: NDArray[np.int64]

    def are_of(self, numbers: NDArray[np.intp], included: NDArray[np.bool_] | None) -> bool:
        """Return whether the sums are of these very arrays."""
        return self.numbers() is numbers and (None if self.included is None else self.included()) is included

    def is_of_no_use(self) -> bool:
        """Whether one of the arrays is gone."""
        return self.numbers() is None or (self.included is not None and self.included() is None)

    def follow(self, row: int, sign: int) -> None:
        """Count a pod added to a row (sign 1), or removed from it (-1)."""
        numbers = self.numbers()
        included = None if self.included is None else self.included()
        if numbers is None or (self.included is not None and included is None):
            return
        if row < len(numbers) and (included is None or included[row]):
            number = numbers[row]
            if number != ABSENT:
                self.by_value[number] += sign


class _Counts(msgspec.Struct, gc=False):
    query: PodQuery
    query_bytes: int
    by_row: NDArray[np.int64]
    change_count: int
    sums: LastFew[None, _Sums]
    # The label set that was matched last, and whether it is selected: changes in a row are often of pods with the same
    # labels.
    last: LabelSet | None = None
    selects_last: bool = False

    def are_about(self, change: PodChange) -> bool:
        """Return whether a change is of a pod that the query counts."""
        if change.is_terminating and not self.query.with_terminating:
            return False
        label_set = change.label_set
        if label_set is self.last:
            return self.selects_last
        selects = self.query.selects(label_set)
        if label_set.size_bytes <= _MOST_LAST_BYTES:
            self.last, self.selects_last = label_set, selects
        return selects

    @property
    def size_bytes(self) -> int:
        """How many bytes the counts take, with the query."""
        return self.query_bytes + self.by_row.nbytes + sum(sums.by_value.nbytes for _, sums, _ in self.sums.entries)

    def follow(self, row: int, sign: int) -> None:
        """Count a pod added to a row (sign 1), or removed from it (-1)."""
        if row >= len(self.by_row):
            self.by_row = _lengthened(self.by_row, 2 * row + 1)
        self.by_row[row] += sign
        for _, sums, _ in self.sums.entries:
            sums.follow(row, sign)


class PodCounts(FollowingColumns[PodQuery, _Counts]):
    """Counts by node row, one array per query, kept current as pods are added to nodes and removed.

    The first answer to a query looks at all pods at once.
    """

    def __init__(self, pods: PodTable, most_entries: int = MOST_QUERIES) -> None:
        super().__init__("pod counts", pods.changes, most_entries=most_entries, most_bytes=_MOST_BYTES_BESIDES)
        self._pods = pods

    def by_row(self, query: PodQuery, size: int) -> NDArray[np.int64]:
        """Return the number of such pods on each of the first `size` rows; not to be written to."""
        return self._counts_of(query, size).by_row[:size]

    def by_value(
        self, query: PodQuery, numbers: NDArray[np.intp], size: int, included: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """Return the number of such pods for each of `size` numbers of rows, such as those of a label's values.

        Pods count on rows that are `included`, and not where the number is ABSENT; the result has one entry more, of 0,
        for ABSENT to pick. It is not to be written to, and kept for as long as the very same two arrays are given.
        """
        return self._sums_of(self._counts_of(query, len(numbers)), numbers, size, included)

    def by_values(
        self, query: PodQuery, size: int, labels: Iterable[tuple[NDArray[np.intp], int]]
    ) -> list[NDArray[np.int64]]:
        """Return what `by_value` does for several labels, each given as numbers of `size` rows and how many there are.

        The pods are counted once, even if the query is too large to be kept.
        """
        counts = self._counts_of(query, size)
        return [self._sums_of(counts, numbers, values, None) for numbers, values in labels]

    def _sums_of(
        self, counts: _Counts, numbers: NDArray[np.intp], size: int, included: NDArray[np.bool_] | None
    ) -> NDArray[np.int64]:
        for _, sums, _ in counts.sums.entries:
            if sums.are_of(numbers, included):
                return sums.by_value
        by_row = counts.by_row[: len(numbers)]
        by_value = sum_by_value(numbers, by_row if included is None else np.where(included, by_row, 0), size)
        sums = _Sums(weakref.ref(numbers), None if included is None else weakref.ref(included), by_value)
        counts.sums.forget(_Sums.is_of_no_use)
        counts.sums.keep(None, sums, by_value.nbytes)
        self.keep(counts.query, counts, counts.size_bytes)
        return by_value

    def _counts_of(self, query: PodQuery, size: int) -> _Counts:
        counts = self.current(query)
        if counts is None:
            sums: LastFew[None, _Sums] = LastFew(None, most_entries=_MOST_SUMS, most_entry_bytes=1 << 62)
            self.most_bytes = _MOST_BYTES_BESIDES + _MOST_BYTES_A_ROW * size
            query_bytes = _BYTES_A_QUERY + size_of(query, self.most_bytes)
            counts = _Counts(query, query_bytes, self._count(query, size), self.changes.count, sums)
            self.keep(query, counts, counts.size_bytes)
        if size > len(counts.by_row):
            counts.by_row = _lengthened(counts.by_row, size)
        return counts

    def _follow(self, column: _Counts, changes: Sequence[PodChange], _context: None) -> bool:
        if len(changes) > _FEW_CHANGES and len(changes) > len(self._pods.facts) // _PODS_A_CHANGE:
            return False
        for change in changes:
            if column.are_about(change):
                column.follow(change.row, change.sign)
        return True

    def _count(self, query: PodQuery, size: int) -> NDArray[np.int64]:
        pods = self._pods
        selected = pods.label_sets.matching(query.selectors)
        slots = selected.take(pods.label_set[: len(pods.facts)]).nonzero()[0]
        if not query.with_terminating:
            slots = slots[~pods.terminating[slots]]
        rows = pods.row[slots]
        return np.bincount(rows[rows != NO_ROW], minlength=size).astype(np.int64, copy=False)


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

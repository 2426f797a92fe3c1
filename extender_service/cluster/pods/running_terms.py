"""The affinity terms of running pods: each distinct one once, with the number of pods on each node that have it."""

import weakref
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.caches import size_of
from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.selection.label_sets import LabelSet
from extender_service.cluster.selection.selector_index import SelectorIndex
from extender_service.cluster.structures.change_log import LARGE_BYTES, ChangeLog
from extender_service.cluster.structures.following_columns import FollowingColumns
from extender_service.cluster.structures.memo import Memo
from extender_service.kube.parsing.pod_affinity import AffinityTerm

# A term on more rows than this keeps its counts in an array, unless the rows are so far apart.
_MOST_ROWS = 32
_ROWS_APART = 8
MOST_SUMS = 128
# Of all sums together, and of their terms, whose content pod authors choose.
_MOST_BYTES_A_ROW = 2 << 10
_MOST_BYTES_BESIDES = 4 << 20
# Of the cached matching terms per label set. A label set may take half a megabyte.
MOST_ABOUT = 64
_MOST_ABOUT_BYTES = 1 << 20


class TermKey(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A term and its weight: None for a required term, for which the configuration has one."""

    term: AffinityTerm
    weight: int | None = None


class TermCounts:
    """How many pods on each node row have one term: an array where many rows have it, for their number.

    A row costs some ten times as much otherwise, and an array as much as all rows up to its last one.
    """

    __slots__ = ("_by_row", "_few", "_last_row", "key", "size_bytes", "total")

    def __init__(self, key: TermKey) -> None:
        self.key = key
        self.size_bytes = size_of(key, _MOST_BYTES_BESIDES)
        self.total = 0
        self._few: dict[int, int] = {}
        self._last_row = 0
        self._by_row: NDArray[np.int64] | None = None

    def add(self, row: int, sign: int) -> None:
        """Count a pod on a row, or with sign -1 no longer."""
        self.total += sign
        if self._by_row is not None:
            if row < len(self._by_row):
                self._by_row[row] += sign
                return
            self._unpack(self._by_row)
        self._last_row = max(self._last_row, row)
        count = self._few.get(row, 0) + sign
        if count:
            self._few[row] = count
        else:
            del self._few[row]
        if len(self._few) > _MOST_ROWS and len(self._few) * _ROWS_APART > self._last_row:
            self._by_row = np.zeros(2 * self._last_row, np.int64)
            self._by_row[list(self._few)] = list(self._few.values())
            self._few = {}

    def _unpack(self, by_row: NDArray[np.int64]) -> None:
        """Keep the rows one by one: the next one may be so far behind the others that an array is a waste."""
        rows = by_row.nonzero()[0]
        self._few = dict(zip(rows.tolist(), by_row[rows].tolist(), strict=True))
        self._last_row = max(self._few, default=0)
        self._by_row = None

    def _rows(self) -> NDArray[np.intp]:
        return np.fromiter(self._few, np.intp, len(self._few))

    @property
    def are_few(self) -> bool:
        """Whether so few rows have the term that adding up their counts takes no time."""
        return self._by_row is None and len(self._few) <= _MOST_ROWS

    def add_by_value(self, sums: NDArray[np.int64], numbers: NDArray[np.intp], weight: int = 1) -> None:
        """Add the counts, times `weight`, to `sums` by number; `numbers` has one for every row."""
        if self._by_row is not None:
            used = min(len(numbers), len(self._by_row))
            np.add.at(sums, numbers[:used], weight * self._by_row[:used])
        elif self.are_few:
            for row, count in self._few.items():
                sums[numbers[row]] += weight * count
        else:
            counts = np.fromiter(self._few.values(), np.int64, len(self._few))
            np.add.at(sums, numbers[self._rows()], weight * counts)

    def is_on_any(self, numbers: NDArray[np.intp]) -> bool:
        """Return whether a pod that has the term is on a row whose number is not ABSENT."""
        if self._by_row is None:
            return bool(np.count_nonzero(numbers[self._rows()] != ABSENT))
        used = min(len(numbers), len(self._by_row))
        return bool(np.count_nonzero(self._by_row[:used][numbers[:used] != ABSENT]))


class TermChange(msgspec.Struct, frozen=True, gc=False):
    """A pod that has a term was added to a node row (sign 1) or removed from it (-1)."""

    key: TermKey
    row: int
    sign: int


class _Sums(msgspec.Struct, gc=False):
    """The counts of one term, added up by the number that each row has. `numbers` is only a weak reference."""

    key: TermKey
    numbers: weakref.ref[NDArray[np.intp]]
    by_value: NDArray[np.int64]
    change_count: int


class _TermSums(FollowingColumns[TermKey, _Sums]):
    """Sums by term, kept current as pods with the term are added and removed."""

    def __init__(self, changes: ChangeLog[TermChange], most_entries: int) -> None:
        super().__init__("sums of affinity terms", changes, most_entries=most_entries, most_bytes=_MOST_BYTES_BESIDES)

    def of(self, term: TermCounts, numbers: NDArray[np.intp], size: int) -> NDArray[np.int64]:
        """Return the counts of a term by number, of which there are `size`; `numbers` has one for every row."""
        sums = self.current(term.key)
        if sums is None or sums.numbers() is not numbers:
            sums = _Sums(term.key, weakref.ref(numbers), np.zeros(size, np.int64), self.changes.count)
            term.add_by_value(sums.by_value, numbers)
            self.most_bytes = _MOST_BYTES_BESIDES + _MOST_BYTES_A_ROW * len(numbers)
            self.keep(term.key, sums, sums.by_value.nbytes + term.size_bytes)
        return sums.by_value

    def _follow(self, column: _Sums, changes: Sequence[TermChange], _context: None) -> bool:
        numbers = column.numbers()
        for change in changes:
            if change.key is column.key or change.key == column.key:
                if numbers is None or change.row >= len(numbers):
                    return False
                column.by_value[numbers[change.row]] += change.sign
        return True


class _Matching(Memo):
    """Terms that match a label set: labels that no second pod has are not worth keeping, however few there are."""

    few_entries = 0


class RunningTerms:
    """Terms by key, looked up by the pods that they match.

    `change_count` grows whenever a pod with a term is added to a row or removed from it.
    """

    def __init__(self, most_sums: int = MOST_SUMS) -> None:
        self._changes: ChangeLog[TermChange] = ChangeLog()
        self._sums = _TermSums(self._changes, most_sums)
        self._counts: dict[TermKey, TermCounts] = {}
        self._index: SelectorIndex[TermKey] = SelectorIndex()
        # Matching terms per label set; the version is the namespace's labels. Cleared when a term's first pod is added
        # or its last pod removed: the counts of a term without pods must not be kept.
        self._about = _Matching("terms by label set", most_entries=MOST_ABOUT, most_bytes=_MOST_ABOUT_BYTES)

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, key: TermKey, row: int, sign: int) -> None:
        """Count a pod that has the term on a row, or with sign -1 no longer."""
        counts = self._counts.get(key)
        if counts is None:
            counts = self._counts[key] = TermCounts(key)
            self._about.clear()
            term = key.term
            self._index.add(key, term.namespaces if term.namespace_selector.nothing else None, term.selector)
        counts.add(row, sign)
        change = TermChange(counts.key, row, sign)
        if counts.size_bytes <= LARGE_BYTES:
            self._changes.append(change)
        else:
            self._changes.append_large(change, counts.size_bytes)
        if not counts.total:
            del self._counts[key]
            self._about.clear()
            self._sums.forget(key)
            self._index.remove(key)

    @property
    def change_count(self) -> int:
        """How many changes there were."""
        return self._changes.count

    @property
    def sum_count(self) -> int:
        """For how many terms sums are kept."""
        return len(self._sums)

    @property
    def about_count(self) -> int:
        """For how many label sets the matching terms are cached."""
        return len(self._about)

    def add_by_value(
        self, term: TermCounts, sums: NDArray[np.int64], numbers: NDArray[np.intp], weight: int = 1
    ) -> None:
        """Add a term's counts, times `weight`, to `sums` by number; `numbers` has one for every row.

        What that takes is kept for as long as the very same numbers are given.
        """
        if term.are_few:
            term.add_by_value(sums, numbers, weight)
            return
        by_value = self._sums.of(term, numbers, len(sums))
        sums += by_value if weight == 1 else weight * by_value

    def about(self, label_set: LabelSet, namespace_labels: Mapping[str, str]) -> tuple[TermCounts, ...]:
        """Return the terms that match a pod with such labels, in a namespace with these labels."""
        given = (self, namespace_labels)
        return self._about.of(namespace_labels, RunningTerms._about_pods, given, (label_set,))

    def _about_pods(self, namespace_labels: Mapping[str, str], label_set: LabelSet) -> tuple[TermCounts, ...]:
        namespace, labels = label_set.namespace, label_set.labels
        return tuple(
            [
                self._counts[key]
                for key in self._index.candidates(namespace, labels)
                if key.term.matches(namespace, labels, namespace_labels)
            ]
        )

"""Node labels as columns: one per label key that a plugin has asked for."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from extender_service.caches import LruCache, size_of
from extender_service.cluster.structures.interning import Interner
from extender_service.cluster.structures.memo import read_only
from extender_service.kube.parsing.selectors import parse_label_integer

ABSENT = -1
# Label keys that have a column. A key that takes more is not valid.
_MOST_KEYS_BYTES = 512 << 10
_NO_LABELS: Mapping[str, str] = {}


class LabelColumn:
    """The values of one label key: per row, the number of its value in `values`, or ABSENT."""

    __slots__ = ("_integers", "_version", "numbers", "values")

    def __init__(self, capacity: int) -> None:
        self.numbers: NDArray[np.intp] = np.full(capacity, ABSENT, np.intp)
        self.values: Interner[str] = Interner()
        self._integers: tuple[NDArray[np.int64], NDArray[np.bool_]] | None = None
        self._version = -1

    def set(self, row: int, value: str | None) -> None:
        """Give a row a value, or none."""
        old = int(self.numbers[row])
        self.numbers[row] = ABSENT if value is None else self.values.hold(value)
        if old != ABSENT:
            self.values.release(old)

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        self.numbers = np.pad(self.numbers, (0, capacity - len(self.numbers)), constant_values=ABSENT)

    def integers(self) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Values read as integers, by value number, and whether they are integers; Gt and Lt compare these."""
        if self._integers is None or self._version != self.values.version:
            parsed = [None if value is None else parse_label_integer(value) for value in self.values.values]
            self._integers = (
                read_only(np.array([number or 0 for number in parsed], np.int64)),
                read_only(np.array([number is not None for number in parsed], np.bool_)),
            )
            self._version = self.values.version
        return self._integers

    def copy(self) -> "LabelColumn":
        """Return a column that can be changed without changing this one."""
        twin = LabelColumn(0)
        twin.numbers = self.numbers.copy()
        twin.values = self.values.copy()
        return twin


class LabelColumns:
    """The labels of all rows, and columns of them by label key, made when a key is first asked for and kept current.

    At most `limit` are kept, as a pod may name any key: those not asked for while half of them are added are dropped. A
    key that no row has costs no look at the rows, and all such keys share one column: a pod may name thousands.
    """

    def __init__(self, limit: int = 256) -> None:
        self.limit = limit
        self._columns: LruCache[str, LabelColumn] = LruCache(None, most_entries=limit, most_bytes=_MOST_KEYS_BYTES)
        self._of_rows: list[Mapping[str, str]] = []
        self._keys: Counter[str] = Counter()
        self._of_no_row = LabelColumn(0)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def value_count(self) -> int:
        """How many values all columns have."""
        return sum(len(column.values) for column in self._columns.values())

    def column(self, key: str, capacity: int) -> LabelColumn:
        """Return the column of `key`, with room for `capacity` rows."""
        if key not in self._keys:
            if len(self._of_no_row.numbers) != capacity:
                self._of_no_row = LabelColumn(capacity)
            return self._of_no_row
        column: LabelColumn | None = self._columns[key]
        if column is None:
            column = LabelColumn(capacity)
            for row, labels in enumerate(self._of_rows):
                if key in labels:
                    column.set(row, labels[key])
            # Its key alone counts: what the column holds follows from the nodes that there are.
            self._columns.keep(key, column, size_of(key))
        return column

    def set(self, row: int, labels: Mapping[str, str]) -> None:
        """Take over the labels of a row, be it the next new one."""
        if row == len(self._of_rows):
            self._of_rows.append(_NO_LABELS)
        before, self._of_rows[row] = self._of_rows[row], labels
        if labels.keys() != before.keys():
            self._keys.update(labels.keys())
            self._keys.subtract(before.keys())
            for key in before.keys() - labels.keys():
                if not self._keys[key]:
                    del self._keys[key]
        for key, column in self._columns.items():
            column.set(row, labels.get(key))

    def grow(self, capacity: int) -> None:
        """Make room for more rows."""
        for column in self._columns.values():
            column.grow(capacity)

    def copy(self) -> "LabelColumns":
        """Return columns that can be changed without changing these."""
        twin = LabelColumns(self.limit)
        for key, column in self._columns.items():
            twin._columns.keep(key, column.copy(), size_of(key))
        twin._of_rows = self._of_rows.copy()
        twin._keys = self._keys.copy()
        return twin

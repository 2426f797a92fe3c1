from collections.abc import Mapping

import numpy as np
import pytest

from extender_service.cluster.nodes.label_columns import ABSENT, LabelColumn, LabelColumns


def columns_of(*labels: Mapping[str, str], limit: int = 256) -> LabelColumns:
    columns = LabelColumns(limit)
    for row, of_row in enumerate(labels):
        columns.set(row, of_row)
    return columns


def values_of(column: LabelColumn, rows: int) -> list[str | None]:
    return [None if number == ABSENT else column.values.values[number] for number in column.numbers[:rows]]


def test_a_column_holds_the_value_of_each_row_and_equal_values_share_a_number() -> None:
    columns = columns_of({"zone": "a"}, {"arch": "arm64"}, {"zone": "b"}, {"zone": "a"})
    column = columns.column("zone", 8)
    assert values_of(column, 8) == ["a", None, "b", "a", None, None, None, None]
    assert column.numbers[0] == column.numbers[3]


def test_an_empty_value_is_a_value() -> None:
    assert values_of(columns_of({"role": ""}, {}).column("role", 2), 2) == ["", None]


def test_columns_that_were_asked_for_follow_the_labels_of_a_row() -> None:
    columns = columns_of({"zone": "a"}, {"zone": "b"})
    column = columns.column("zone", 2)
    columns.set(0, {"zone": "c"})
    columns.set(1, {"arch": "arm64"})
    assert values_of(column, 2) == ["c", None]
    assert {value for _, value in column.values} == {"c"}


def test_asking_again_for_a_key_gives_the_same_column() -> None:
    columns = columns_of({"zone": "a"})
    assert columns.column("zone", 1) is columns.column("zone", 1)


def test_columns_grow_with_the_table() -> None:
    columns = columns_of({"zone": "a"})
    column = columns.column("zone", 1)
    columns.grow(2)
    columns.set(1, {"zone": "b"})
    assert values_of(column, 2) == ["a", "b"]


def test_the_column_that_nobody_asked_for_longest_goes_first() -> None:
    columns = columns_of({"zone": "a", "arch": "arm64", "disk": "ssd"}, limit=2)
    zone = columns.column("zone", 1)
    arch = columns.column("arch", 1)
    assert columns.column("zone", 1) is zone
    columns.column("disk", 1)
    assert columns.column("zone", 1) is zone
    assert columns.column("arch", 1) is not arch


def test_keys_that_no_row_has_push_nothing_out() -> None:
    columns = columns_of({"zone": "a"}, limit=1)
    zone = columns.column("zone", 1)
    assert values_of(columns.column("nobody-has-this", 1), 1) == [None]
    assert columns.column("zone", 1) is zone


def test_keys_that_no_row_has_share_one_column_that_has_room_for_all_rows() -> None:
    columns = columns_of({"zone": "a"})
    absent = columns.column("a", 1)
    assert columns.column("b", 1) is absent
    columns.set(1, {"a": "x"})
    columns.grow(2)
    assert values_of(columns.column("a", 2), 2) == [None, "x"]
    assert values_of(columns.column("b", 2), 2) == [None, None]


def test_a_key_counts_for_as_long_as_a_row_has_it() -> None:
    columns = columns_of({}, {})
    assert values_of(columns.column("zone", 2), 2) == [None, None]
    columns.set(0, {"zone": "a"})
    columns.set(1, {"zone": "b", "arch": "arm64"})
    columns.set(0, {"arch": "amd64"})
    assert values_of(columns.column("zone", 2), 2) == [None, "b"]
    columns.set(1, {})
    assert values_of(columns.column("zone", 2), 2) == [None, None]
    columns.set(0, {"zone": "c"})
    assert values_of(columns.column("zone", 2), 2) == ["c", None]


def test_a_column_that_comes_back_holds_the_labels_of_today() -> None:
    columns = columns_of({"zone": "a", "arch": "arm64"}, limit=1)
    columns.column("zone", 1)
    columns.column("arch", 1)
    columns.set(0, {"zone": "b"})
    assert values_of(columns.column("zone", 1), 1) == ["b"]


def test_values_are_read_as_integers_for_gt_and_lt() -> None:
    column = columns_of({"cores": "16"}, {"cores": "many"}, {"cores": "-4"}, {}).column("cores", 4)
    integers, is_integer = column.integers()
    assert is_integer[column.numbers[:3]].tolist() == [True, False, True]
    assert integers[column.numbers[[0, 2]]].tolist() == [16, -4]


def test_integers_cannot_be_written_to() -> None:
    for shared in columns_of({"cores": "16"}).column("cores", 1).integers():
        with pytest.raises(ValueError, match="read-only"):
            shared[:] = 0


def test_integers_follow_when_a_number_gets_another_value() -> None:
    columns = columns_of({"cores": "16"})
    column = columns.column("cores", 1)
    column.integers()
    columns.set(0, {})
    columns.set(0, {"cores": "32"})
    integers, is_integer = column.integers()
    assert (int(integers[column.numbers[0]]), bool(is_integer[column.numbers[0]])) == (32, True)


def test_a_copy_changes_on_its_own() -> None:
    columns = columns_of({"zone": "a"}, {"zone": "b"})
    column = columns.column("zone", 2)
    before = column.numbers.copy()
    twin = columns.copy()
    twin.set(0, {"zone": "c"})
    twin.grow(4)
    assert values_of(twin.column("zone", 4), 4) == ["c", "b", None, None]
    assert values_of(column, 2) == ["a", "b"]
    assert np.array_equal(column.numbers, before)


def test_a_key_is_known_for_as_long_as_some_row_has_it() -> None:
    columns = columns_of({"zone": "a", "disk": "ssd"}, {"zone": "b"})
    columns.set(0, {"arch": "arm64"})
    assert set(columns._keys) == {"zone", "arch"}
    columns.set(1, {"zone": "c", "arch": "amd64"})
    columns.set(0, {})
    assert set(columns._keys) == {"zone", "arch"}
    columns.set(1, {})
    assert not columns._keys

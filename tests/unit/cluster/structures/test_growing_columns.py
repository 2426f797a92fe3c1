from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from extender_service.cluster.amounts.dimensions import Dimensions
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.pods.pod_table import PodTable
from extender_service.cluster.structures.growing_columns import GrowingColumns, column


class Machines(GrowingColumns):
    names = column(np.object_, empty="")
    is_on = column(np.bool_)
    site = column(np.intp, empty=-1)
    offered = column(np.int64, by_dimension=True)


class Owned(Machines):
    owner = column(np.intp, empty=7)


def machines() -> Machines:
    """Two machines, with room for no third, in two dimensions."""
    table = Machines(2, 2)
    table.names[:] = ["a", "b"]
    table.is_on[1] = True
    table.site[:] = [4, 5]
    table.offered[:] = [[1, 2], [3, 4]]
    return table


def columns_of(table: GrowingColumns) -> dict[str, NDArray[Any]]:
    """All arrays of a table, whether declared or not."""
    return {name: value for name, value in vars(table).items() if isinstance(value, np.ndarray)}


def test_rows_are_empty_at_first() -> None:
    table = Machines(2, 3)
    assert (table.names.tolist(), table.is_on.tolist(), table.site.tolist()) == (["", ""], [False, False], [-1, -1])
    assert table.offered.tolist() == [[0, 0]] * 3
    kinds = {name: array.dtype.kind for name, array in columns_of(table).items()}
    assert kinds == {"names": "O", "is_on": "b", "site": "i", "offered": "i"}


def test_a_table_that_grows_keeps_its_rows_and_the_others_are_empty() -> None:
    table = machines()
    table.resize_columns(3, 2)
    assert (table.names.tolist(), table.is_on.tolist()) == (["a", "b", ""], [False, True, False])
    assert (table.site.tolist(), table.offered.tolist()) == ([4, 5, -1], [[1, 2, 0], [3, 4, 0]])


def test_a_table_that_gets_wider_keeps_the_columns_that_are_not_by_dimension() -> None:
    table = machines()
    names = table.names
    table.resize_columns(2, 3)
    assert table.offered.tolist() == [[1, 2], [3, 4], [0, 0]]
    assert table.names is names


def test_a_copy_has_the_same_rows_and_changes_on_its_own() -> None:
    table, twin = machines(), Machines(1)
    table.copy_columns_to(twin)
    assert {name: array.tolist() for name, array in columns_of(twin).items()} == {
        name: array.tolist() for name, array in columns_of(table).items()
    }
    for name in ("names", "is_on", "site", "offered"):
        getattr(twin, name)[:] = 1
    assert (table.names.tolist(), table.site.tolist()) == (["a", "b"], [4, 5])
    assert (table.is_on.tolist(), table.offered.tolist()) == ([False, True], [[1, 2], [3, 4]])


def test_a_subclass_has_the_columns_of_its_parent_too() -> None:
    table = Owned(2, 2)
    table.resize_columns(3, 2)
    assert (table.owner.tolist(), table.names.tolist()) == ([7, 7, 7], ["", "", ""])
    assert "owner" not in columns_of(Machines(1))


def test_only_tables_have_the_columns() -> None:
    with pytest.raises(AttributeError):
        _ = Machines.names


@pytest.mark.parametrize(("table", "others"), [(NodeTable(), set()), (PodTable(Dimensions()), {"amounts"})])
def test_every_column_of_a_table_is_declared(table: GrowingColumns, others: set[str]) -> None:
    """An array that the constructor makes by hand would not grow. The amounts of pods have no entry per slot."""
    assert set(columns_of(table)) - set(table._declared) == others

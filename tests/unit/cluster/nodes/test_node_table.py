import numpy as np
import pytest
from msgspec import structs
from numpy.typing import NDArray

from extender_service.cluster.amounts.dimensions import CPU_MILLI, FIRST_SCALAR, MEMORY_BYTES, POD_COUNT
from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import ContainerImage, Node, NodeCondition, Taint
from tests.support.objects import make_node

GPU = "nvidia.com/gpu"
DEDICATED = Taint(key="dedicated", value="ml", effect="NoSchedule")
NO_PORTS = frozenset[tuple[str, str, int]]()


def takes(table: NodeTable, cpu_milli: int, gpus: int = 0) -> NDArray[np.int64]:
    amounts = np.zeros(table.dimensions.size, np.int64)
    amounts[CPU_MILLI], amounts[POD_COUNT] = cpu_milli, 1
    if gpus:
        amounts[table.dimensions.find(GPU)] = gpus
    return amounts


def offers(table: NodeTable, name: str, resource: str) -> int:
    return int(table.allocatable[table.dimensions.find(resource), table.row_of[name]])


def label_of(table: NodeTable, name: str, key: str) -> str | None:
    column = table.label_column(key)
    number = column.numbers[table.row_of[name]]
    return None if number == ABSENT else column.values.values[number]


def taints_of(table: NodeTable, name: str) -> tuple[Taint, ...] | None:
    return table.taint_sets.values[int(table.taint_set[table.row_of[name]])]


def test_a_node_is_a_row_of_facts() -> None:
    table = NodeTable()
    table.apply(
        make_node("a", {"cpu": "4", "memory": "1Ki"}, labels={"zone": "x"}, taints=[DEDICATED], unschedulable=True)
    )
    row = table.row_of["a"]
    assert table.exists[row]
    assert table.is_node("a")
    assert table.unschedulable[row]
    assert (offers(table, "a", "cpu"), offers(table, "a", "memory"), offers(table, "a", "pods")) == (4000, 1024, 0)
    assert taints_of(table, "a") == (DEDICATED,)
    assert label_of(table, "a", "zone") == "x"
    assert (table.count, table.size) == (1, 1)


def test_an_update_replaces_all_facts() -> None:
    table = NodeTable()
    table.label_column("zone")
    table.apply(make_node("a", {"cpu": "4", GPU: "8"}, labels={"zone": "x"}, taints=[DEDICATED], unschedulable=True))
    assert table.apply(make_node("a", {"cpu": "2"}, labels={"arch": "arm64"}))
    assert (offers(table, "a", "cpu"), table.dimensions.find(GPU)) == (2000, -1)
    assert not table.unschedulable[table.row_of["a"]]
    assert taints_of(table, "a") == ()
    assert (label_of(table, "a", "zone"), label_of(table, "a", "arch")) == (None, "arm64")
    assert table.count == 1


def test_a_heartbeat_changes_nothing_but_the_object_kept() -> None:
    table = NodeTable()
    table.apply(make_node("a", resource_version="1"))
    newer = make_node("a", resource_version="2")
    assert not table.apply(newer)
    assert table.objects[table.row_of["a"]] is newer


def with_conditions(**statuses: str) -> Node:
    node = make_node("a")
    conditions = tuple(NodeCondition(kind, status) for kind, status in statuses.items())
    return structs.replace(node, status=structs.replace(node.status, conditions=conditions))


def test_the_status_of_a_condition_is_a_fact() -> None:
    table = NodeTable()
    table.apply(with_conditions(Ready="True"))
    for changed in ({"GPUHealthy": "False"}, {"GPUHealthy": "True"}, {}):
        before = table.fact_changes.count
        node = with_conditions(Ready="True", **changed)
        assert table.apply(node)
        assert table.objects[table.row_of["a"]] is node
        assert table.fact_changes.since(before) == [table.row_of["a"]]


def test_the_order_of_conditions_is_no_fact() -> None:
    table = NodeTable()
    table.apply(with_conditions(Ready="True", GPUHealthy="False"))
    before = table.fact_changes.count
    again = with_conditions(GPUHealthy="False", Ready="True")
    assert not table.apply(again)
    assert table.objects[table.row_of["a"]] is again
    assert table.fact_changes.count == before


def test_nodes_that_got_the_same_taint_at_different_times_share_it() -> None:
    table = NodeTable()
    for name, time in (("a", "2024-01-01T00:00:00Z"), ("b", "2024-01-01T00:00:01Z"), ("c", "")):
        table.apply(make_node(name, taints=[Taint("busy", "", "NoExecute", time)]))
    assert len({int(table.taint_set[table.row_of[name]]) for name in "abc"}) == 1
    assert taints_of(table, "a") == (Taint("busy", "", "NoExecute"),)


def test_a_malformed_quantity_changes_nothing() -> None:
    table = NodeTable()
    with pytest.raises(QuantityError):
        table.apply(make_node("a", {"cpu": "lots"}))
    assert (table.row_of, table.count) == ({}, 0)
    table.apply(make_node("a", {"cpu": "4"}))
    with pytest.raises(QuantityError):
        table.apply(make_node("a", {"cpu": "8", "memory": "lots"}))
    assert offers(table, "a", "cpu") == 4000


def test_a_node_that_goes_leaves_its_row_to_the_next() -> None:
    table = NodeTable()
    table.apply(make_node("a", {GPU: "8"}, labels={"zone": "x"}, taints=[DEDICATED], unschedulable=True))
    table.label_column("zone")
    assert table.remove("a")
    assert (table.is_node("a"), table.names[0]) == (False, "")
    assert (table.count, len(table.row_of)) == (0, 0)
    assert len(table.label_column("zone").values) == 0
    table.apply(make_node("b", {"cpu": "1"}))
    assert (table.row_of["b"], table.size, table.names[0]) == (0, 1, "b")
    assert not table.unschedulable[0]
    assert (taints_of(table, "b"), label_of(table, "b", "zone")) == ((), None)
    assert (table.allocatable[:, 0] != 0).sum() == 1


def test_removing_a_node_that_is_not_known_does_nothing() -> None:
    table = NodeTable()
    table.row_for("only-a-pod-named-it")
    assert not table.remove("only-a-pod-named-it")
    assert not table.remove("nobody-named-it")


def test_a_row_stays_while_pods_count_on_it() -> None:
    table = NodeTable()
    table.apply(make_node("a"))
    row = table.row_of["a"]
    table.add_pod(row, takes(table, 500), frozenset({("0.0.0.0", "TCP", 80)}))
    table.remove("a")
    assert (table.exists[row], table.row_of, table.requested[CPU_MILLI, row]) == (False, {"a": row}, 500)
    assert not table.allocatable[:, row].any()
    table.apply(make_node("b"))
    assert table.row_of["b"] != row
    table.apply(make_node("a"))
    assert (table.row_of["a"], table.requested[CPU_MILLI, row]) == (row, 500)
    table.remove("a")
    table.remove_pod(row, takes(table, 500), frozenset({("0.0.0.0", "TCP", 80)}))
    assert "a" not in table.row_of
    assert table.row_for("c") == row
    assert not table.requested[:, row].any()
    assert not table.left[:, row].any()


def test_a_pod_without_requests_keeps_its_row_too() -> None:
    table = NodeTable()
    row = table.row_for("a")
    table.add_pod(row, takes(table, 0), NO_PORTS)
    table.apply(make_node("a"))
    table.remove("a")
    assert table.row_of == {"a": row}


def test_host_ports_are_in_use_until_the_last_pod_with_them_goes() -> None:
    table = NodeTable()
    web, both = frozenset({("0.0.0.0", "TCP", 80)}), frozenset({("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 53)})
    row = table.row_for("a")

    def in_use() -> frozenset[tuple[str, str, int]] | None:
        return table.port_sets.values[int(table.port_set[row])]

    table.add_pod(row, takes(table, 1), web)
    table.add_pod(row, takes(table, 1), both)
    assert in_use() == both
    table.remove_pod(row, takes(table, 1), both)
    assert in_use() == web
    table.apply(make_node("a"))
    table.remove_pod(row, takes(table, 1), web)
    assert in_use() == NO_PORTS
    assert dict(table.port_sets) == {0: NO_PORTS}


def test_a_resource_that_comes_in_the_place_of_another_shows_none_of_its_amounts() -> None:
    table = NodeTable()
    table.apply(make_node("a", {"cpu": "1", GPU: "8"}))
    table.apply(make_node("b", {"cpu": "1"}))
    dimension = table.dimensions.find(GPU)
    table.remove("a")
    table.apply(make_node("b", {"cpu": "1", "example.com/fpga": "2"}))
    assert table.dimensions.find("example.com/fpga") == dimension
    assert table.allocatable[dimension].sum() == offers(table, "b", "example.com/fpga") == 2


def test_the_table_grows_past_its_first_capacity() -> None:
    table = NodeTable()
    table.label_column("kubernetes.io/hostname")
    names = [f"node-{number}" for number in range(200)]
    for number, name in enumerate(names):
        labels = {"kubernetes.io/hostname": name}
        table.apply(make_node(name, {"cpu": str(number)}, labels=labels, taints=[DEDICATED] * (number % 2)))
        table.add_pod(table.row_of[name], takes(table, number), frozenset({("0.0.0.0", "TCP", number + 1)}))
    assert (table.count, np.flatnonzero(table.exists).tolist()) == (200, list(range(200)))
    assert len(table.label_column("kubernetes.io/hostname").numbers) == table.capacity
    assert not table.unschedulable.any()
    for number, name in enumerate(names):
        assert offers(table, name, "cpu") == 1000 * number
        assert taints_of(table, name) == (DEDICATED,) * (number % 2)
        assert label_of(table, name, "kubernetes.io/hostname") == name
        assert table.requested[CPU_MILLI, table.row_of[name]] == number
        assert table.left[CPU_MILLI, table.row_of[name]] == 1000 * number - number
        assert table.port_sets.values[table.port_set[table.row_of[name]]] == {("0.0.0.0", "TCP", number + 1)}


def test_rows_are_found_by_name_for_nodes_that_exist() -> None:
    table = NodeTable()
    assert table.rows_named(["a"]).tolist() == [-1]
    assert table.rows_named([]).tolist() == []
    for name in ("a", "b", "c"):
        table.apply(make_node(name))
    table.row_for("not-yet")
    table.remove("b")
    assert table.rows_named(["c", "not-yet", "b", "nobody", "a"]).tolist() == [2, -1, -1, -1, 0]


def test_a_copy_changes_on_its_own() -> None:
    table = NodeTable()
    table.apply(make_node("a", {"cpu": "4", "memory": "1Ki", GPU: "8"}, labels={"zone": "x"}))
    table.apply(make_node("gone"))
    table.remove("gone")
    table.label_column("zone")
    row = table.row_of["a"]
    web = frozenset({("0.0.0.0", "TCP", 80)})
    table.add_pod(row, takes(table, 500, gpus=1), web)

    twin = table.copy()
    assert (offers(twin, "a", GPU), label_of(twin, "a", "zone"), twin.count) == (8, "x", 1)
    twin.apply(make_node("a", {"example.com/fpga": "3"}, labels={"zone": "y"}, taints=[DEDICATED], unschedulable=True))
    twin.remove_pod(row, takes(twin, 500, gpus=1), web)
    twin.add_pod(row, takes(twin, 700), frozenset({("0.0.0.0", "TCP", 81)}))
    for number in range(100):
        twin.apply(make_node(f"more-{number}", {"example.com/fpga": "9"}, labels={"zone": "z"}))

    assert (table.count, table.size, table.row_of, len(table.exists)) == (1, 2, {"a": 0}, 64)
    assert [offers(table, "a", resource) for resource in ("cpu", "memory", GPU)] == [4000, 1024, 8]
    assert table.dimensions.find("example.com/fpga") == -1
    assert table.requested[[CPU_MILLI, MEMORY_BYTES, POD_COUNT, FIRST_SCALAR], row].tolist() == [500, 0, 1, 1]
    assert (taints_of(table, "a"), label_of(table, "a", "zone")) == ((), "x")
    assert not table.unschedulable[row]
    assert table.port_sets.values[int(table.port_set[row])] == web
    assert {value for _, value in table.label_column("zone").values} == {"x"}
    assert (len(table.taint_sets), len(table.port_sets)) == (1, 2)
    table.add_pod(row, takes(table, 1), frozenset({("0.0.0.0", "TCP", 82)}))
    assert table.port_sets.values[int(table.port_set[row])] == web | {("0.0.0.0", "TCP", 82)}
    assert label_of(twin, "a", "zone") == "y"
    assert twin.requested[CPU_MILLI, row] == 700
    for each in (table, twin):
        assert (each.left == each.allocatable - each.requested).all()


def test_it_can_be_told_that_other_nodes_exist_than_before() -> None:
    table = NodeTable()
    seen = {table.membership}
    for change, name in [("apply", "a"), ("apply", "b"), ("remove", "a"), ("remove", "b"), ("apply", "a")]:
        if change == "apply":
            table.apply(make_node(name))
        else:
            table.remove(name)
        assert table.membership not in seen
        seen.add(table.membership)
    table.apply(make_node("a", labels={"zone": "x"}))
    assert table.membership in seen


def test_each_resource_takes_one_line_of_the_columns() -> None:
    table = NodeTable()
    for number in range(5):
        table.apply(make_node(str(number), {f"example.com/device-{number}": "1"}))
    assert table.allocatable.shape == table.requested.shape == (table.dimensions.capacity, table.capacity)
    assert table.dimensions.size == FIRST_SCALAR + 5


def test_a_csi_node_that_never_came_may_go() -> None:
    table = NodeTable()
    table.apply(make_node("a"))
    table.apply_csi_node("a", None)
    table.apply_csi_node("never heard of", None)
    assert list(table.row_of) == ["a"]


def test_a_nodes_images_are_kept_once_for_all_nodes_and_not_with_the_node() -> None:
    table = NodeTable()
    node = make_node("a")
    table.apply(structs.replace(node, status=structs.replace(node.status, images=(ContainerImage(("web:1",), 5),))))
    assert table.objects[0] == node
    assert table.images.find("web:1") is not None


def test_many_names_are_found_while_nodes_come_and_go() -> None:
    table = NodeTable()
    names = [f"node-{number}" for number in range(1000)]
    there = set[str]()
    for begin in range(0, 1000, 250):
        for name in names[begin : begin + 250]:
            table.apply(make_node(name))
            there.add(name)
        for name in names[begin : begin + 250 : 3]:
            table.remove(name)
            there.discard(name)
        rows = table.rows_named(names)
        assert [name for name, row in zip(names, rows, strict=True) if row >= 0] == [n for n in names if n in there]
        assert all(table.names[row] == name for name, row in zip(names, rows, strict=True) if row >= 0)
        assert all(table.row_of[name] == row for name, row in zip(names, rows, strict=True) if row >= 0)

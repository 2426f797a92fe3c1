import pytest

from extender_service.cluster.amounts.dimensions import CPU_MILLI, POD_COUNT
from extender_service.cluster.pods.pod_entries import pod_entry
from extender_service.cluster.pods.pod_table import NO_ROW
from extender_service.cluster.state.occupancy import Occupancy
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Pod, ResourceList
from tests.support.memory import MIB, kept_bytes
from tests.support.objects import make_node, make_pod


def add(occupancy: Occupancy, pod: Pod) -> int:
    return occupancy.add(pod_entry(pod, pod.metadata.uid, pod.spec.node_name))


def requested(occupancy: Occupancy, node_name: str) -> tuple[int, int]:
    amounts = occupancy.nodes.requested[:, occupancy.nodes.row_of[node_name]]
    return int(amounts[CPU_MILLI]), int(amounts[POD_COUNT])


def test_pods_add_up_on_their_node() -> None:
    occupancy = Occupancy()
    occupancy.nodes.apply(make_node("a"))
    first = add(occupancy, make_pod("first", "a", requests={"cpu": "1"}))
    second = add(occupancy, make_pod("second", "a", requests={"cpu": "500m"}))
    assert requested(occupancy, "a") == (1500, 2)
    row = occupancy.nodes.row_of["a"]
    assert occupancy.pods.on_row(row) == [first, second]
    occupancy.remove(first)
    assert requested(occupancy, "a") == (500, 1)
    assert occupancy.pods.on_row(row) == [second]


def test_a_pod_without_a_node_counts_nowhere() -> None:
    occupancy = Occupancy()
    slot = add(occupancy, make_pod("pending", requests={"cpu": "1"}))
    assert occupancy.pods.row[slot] == NO_ROW
    assert occupancy.nodes.row_of == {}
    occupancy.remove(slot)
    assert len(occupancy.pods) == 0


def test_a_pod_keeps_a_place_for_its_node_and_gives_it_up_when_it_goes() -> None:
    occupancy = Occupancy()
    slot = add(occupancy, make_pod("early", "a", requests={"cpu": "1"}))
    assert requested(occupancy, "a") == (1000, 1)
    assert not occupancy.nodes.is_node("a")
    occupancy.remove(slot)
    assert occupancy.nodes.row_of == {}


def test_a_malformed_quantity_changes_nothing() -> None:
    occupancy = Occupancy()
    with pytest.raises(QuantityError):
        add(occupancy, make_pod("web", "a", requests={"cpu": "lots"}))
    assert (len(occupancy.pods), occupancy.nodes.row_of) == (0, {})


GPU = "nvidia.com/gpu"


def test_what_pods_request_counts_from_when_a_node_offers_it() -> None:
    occupancy = Occupancy()
    occupancy.apply_node(make_node("a"))
    add(occupancy, make_pod("early", "a", requests={GPU: "2"}))
    waiting = add(occupancy, make_pod("waiting", requests={GPU: "1"}))
    changes_before = occupancy.nodes.amount_changes.count
    occupancy.apply_node(make_node("b", {GPU: "8"}))
    dimension = occupancy.nodes.dimensions.find(GPU)
    row = occupancy.nodes.row_of["a"]
    assert occupancy.nodes.requested[dimension, row] == -occupancy.nodes.left[dimension, row] == 2
    assert row in (occupancy.nodes.amount_changes.since(changes_before) or ())
    assert occupancy.pods.amounts_of(waiting)[dimension] == 1
    occupancy.remove_node("b")
    assert not occupancy.nodes.requested[dimension].any()
    assert not occupancy.nodes.left[dimension].any()


def test_a_copy_counts_what_pods_request_of_what_only_its_nodes_offer() -> None:
    occupancy = Occupancy()
    occupancy.apply_node(make_node("a"))
    add(occupancy, make_pod("early", "a", requests={GPU: "2"}))
    twin = occupancy.with_nodes([make_node("a", {GPU: "8"})])
    dimension, row = twin.dimensions.find(GPU), twin.row_of["a"]
    assert (twin.requested[dimension, row], twin.left[dimension, row]) == (2, 6)
    assert occupancy.nodes.dimensions.find(GPU) == -1


def test_a_resource_keeps_its_place_in_a_copy_whose_nodes_offer_it_no_more() -> None:
    """The amounts of pods are by dimension, also in the worlds of the copy's nodes."""
    occupancy = Occupancy()
    occupancy.apply_node(make_node("a", {GPU: "8"}))
    occupancy.apply_node(make_node("b"))
    add(occupancy, make_pod("train", "a", requests={GPU: "2"}))
    twin = occupancy.with_nodes([make_node("a"), make_node("b", {"example.com/fpga": "1", GPU: "4"}), make_node("b")])
    dimension = occupancy.nodes.dimensions.find(GPU)
    assert (twin.dimensions.find(GPU), twin.dimensions.find("example.com/fpga")) == (dimension, -1)
    assert [twin.left[dimension, twin.row_of[name]] for name in "ab"] == [-2, 0]
    twin = occupancy.with_nodes([make_node("a"), make_node("b", {"example.com/fpga": "1"})])
    assert twin.dimensions.find("example.com/fpga") != dimension


def test_resources_that_one_pod_makes_up_take_no_column_of_all_nodes() -> None:
    occupancy = Occupancy()
    for number in range(1000):
        occupancy.apply_node(make_node(f"node-{number}", {"cpu": "4", "pods": "110"}))
    shape = occupancy.nodes.allocatable.shape
    made_up: ResourceList = {f"example.com/{number}": "1" for number in range(5000)}

    def meet() -> None:
        occupancy.remove(add(occupancy, make_pod("hostile", "node-1", requests=made_up)))
        add(occupancy, make_pod("hostile", requests=made_up))
        add(occupancy, make_pod("plain", "node-2", requests={"cpu": "1"}))
        occupancy.apply_node(make_node("node-3", {"cpu": "8"}))

    assert kept_bytes(meet) < 8 * MIB
    assert occupancy.nodes.allocatable.shape == occupancy.nodes.requested.shape == shape

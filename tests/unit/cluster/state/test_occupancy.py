import pytest

from extender_service.cluster.amounts.dimensions import CPU_MILLI, POD_COUNT
from extender_service.cluster.pods.pod_entries import pod_entry
from extender_service.cluster.pods.pod_table import NO_ROW
from extender_service.cluster.state.occupancy import Occupancy
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Pod
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

"""The order of nodes: zones take turns, and keep their places."""

import pytest

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.scheduler.node_order import NodeOrder
from tests.support.objects import make_node

ZONE = "topology.kubernetes.io/zone"


class Nodes:
    def __init__(self) -> None:
        self.table = NodeTable()
        self.order = NodeOrder(self.table)

    def apply(self, name: str, labels: dict[str, str] | None = None) -> None:
        node = make_node(name, labels=labels)
        self.table.apply(node)
        self.order.apply(node)

    def remove(self, name: str) -> None:
        self.table.remove(name)
        self.order.remove(name)

    def attempt(self) -> str:
        """The order of an attempt that begins now."""
        self.order.begin_attempt()
        return " ".join(self.table.names[self.order.rows])


@pytest.fixture
def nodes() -> Nodes:
    nodes = Nodes()
    for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("none", "")):
        nodes.apply(name, {ZONE: zone} if zone else None)
    return nodes


def test_zones_take_turns(nodes: Nodes) -> None:
    assert nodes.attempt() == "a1 b1 none a2 a3"


def test_a_node_that_comes_is_the_last_of_its_zone_and_a_zone_ends_with_its_last_node(nodes: Nodes) -> None:
    nodes.remove("b1")
    nodes.apply("b2", {ZONE: "b"})
    assert nodes.attempt() == "a1 none b2 a2 a3"


def test_another_zone_counts_once_nodes_have_come_or_gone(nodes: Nodes) -> None:
    nodes.attempt()
    nodes.apply("a1", {ZONE: "b"})
    assert nodes.attempt() == "a1 b1 none a2 a3"
    nodes.apply("c1", {ZONE: "c"})
    assert nodes.attempt() == "a2 b1 none c1 a3 a1"


def test_a_node_that_was_created_again_between_two_attempts_keeps_its_place(nodes: Nodes) -> None:
    nodes.attempt()
    nodes.remove("a1")
    nodes.apply("a1", {ZONE: "a"})
    assert nodes.attempt() == "a1 b1 none a2 a3"


def test_a_region_makes_another_zone_and_the_old_labels_count_first() -> None:
    nodes = Nodes()
    nodes.apply("one", {ZONE: "a", "topology.kubernetes.io/region": "r"})
    nodes.apply("other", {ZONE: "a"})
    nodes.apply("old", {ZONE: "b", "failure-domain.beta.kubernetes.io/zone": "a"})
    assert nodes.attempt() == "one other old"
    nodes.apply("more", {ZONE: "z"})
    assert nodes.attempt() == "one other more old"

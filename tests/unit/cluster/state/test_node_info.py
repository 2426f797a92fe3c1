import numpy as np

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.node_info import NodeInfo, node_named
from extender_service.cluster.view.hypothetical import RowChanges
from tests.support.objects import make_node, make_pod


def test_a_node_is_found_by_name_with_what_counts_on_it() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    cluster.apply_node(make_node("b", {"cpu": "4", "pods": "110"}, labels={"disk": "ssd"}))
    cluster.apply_pod(make_pod("web", "b", requests={"cpu": "1500m"}))

    node = node_named(cluster, "b")

    assert node is not None
    assert (node.name, node.labels, node.pod_count) == ("b", {"disk": "ssd"}, 1)
    assert (node.allocatable("cpu"), node.requested("cpu"), node.free("cpu")) == (4000, 1500, 2500)


def test_the_pods_of_a_node_are_those_of_its_own_world() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply_node(make_node(name))
    cluster.apply_pod(make_pod("web", "b"))
    cluster.apply_pod(make_pod("waiting"))
    node = node_named(cluster, "b")
    assert node is not None
    assert [pod.name for pod in node.pods] == ["web"]

    web, waiting = cluster.slot_of(("default", "web")), cluster.slot_of(("default", "waiting"))
    assert web is not None
    assert waiting is not None
    changed = cluster.view(None).changed(RowChanges([1, 1], [web, waiting], [-1, 1]))
    assert [pod.name for pod in NodeInfo(changed, 1, node.object).pods] == ["waiting"]


def test_there_is_no_node_where_there_are_only_pods() -> None:
    cluster = Cluster()
    cluster.apply_pod(make_pod("web", "gone"))
    assert node_named(cluster, "gone") is None
    assert node_named(cluster, "never-heard-of") is None


def test_the_first_node_is_found_like_any_other_and_no_name_is_taken_for_another() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("first"))
    first = node_named(cluster, "first")
    assert first is not None
    assert first.name == "first"
    for number in range(cluster.nodes.capacity - 1):
        cluster.apply_node(make_node(str(number)))
    assert node_named(cluster, "never-heard-of") is None


def test_what_pods_request_counts_also_where_no_node_offers_it() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    cluster.apply_node(make_node("b"))
    cluster.apply_pod(make_pod("web", "b", requests={"example.com/license": "3"}))
    waiting = make_pod("waiting", requests={"example.com/license": "2"})
    cluster.apply_pod(waiting)
    slot = cluster.slot_of(("default", "waiting"))
    assert slot is not None
    nodes = cluster.view(None)
    changed = nodes.changed(RowChanges(np.array([0, 1]), np.array([slot, slot]), np.array([1, -1])))
    for view, requested in ((nodes, [0, 3]), (changed, [2, 1])):
        found = [NodeInfo(view, position, make_node("-")).requested("example.com/license") for position in (0, 1)]
        assert found == requested

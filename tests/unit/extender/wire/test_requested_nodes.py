import json
from itertools import compress
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.wire.requested_nodes import RequestedNodes
from extender_service.kube.parsing.decoder import DecodeError
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.extender_api import ExtenderArgs, NodeList
from extender_service.scheduling.asked_nodes import AskedNodes, NodeFinder
from tests.support.objects import make_node, make_pod


def cluster_of(*names: str) -> Cluster:
    cluster = Cluster()
    for name in names:
        cluster.apply_node(make_node(name, resource_version="1"))
    return cluster


def requested(cluster: Cluster) -> RequestedNodes:
    return RequestedNodes(cluster, NodeFinder(cluster))


def find(args: ExtenderArgs) -> AskedNodes:
    """Find nodes in an empty cluster."""
    return requested(cluster_of()).find(args)


def whole(*nodes: object) -> ExtenderArgs:
    return ExtenderArgs(nodes=NodeList(tuple(msgspec.Raw(json.dumps(node).encode()) for node in nodes)))


@given(
    known=st.lists(st.sampled_from("abcdefgh"), unique=True),
    asked=st.lists(st.sampled_from("abcdefghij"), max_size=10),
    removed=st.lists(st.sampled_from("abcdefgh"), unique=True),
    come_whole=st.booleans(),
)
def test_every_name_finds_its_node(known: list[str], asked: list[str], removed: list[str], come_whole: bool) -> None:
    cluster = cluster_of(*known)
    for name in removed:
        cluster.apply_pod(make_pod(f"on-{name}", name))
        cluster.remove_node(name)
    args = ExtenderArgs(node_names=asked)
    if come_whole:
        args = whole(*({"metadata": {"name": name}} for name in asked))
    found = requested(cluster).find(args)
    exists = set(asked) if come_whole else set(known) - set(removed)
    names = found.view.names
    assert found.names == asked
    assert found.unknown == [name for name in asked if name not in exists]
    for name, position in zip(asked, found.positions.tolist(), strict=True):
        assert (names[position] == name) if name in exists else (position == -1)
    assert {names[position] for position in np.flatnonzero(found.in_question)} == set(asked) & exists
    assert list(compress(asked, found.passing(found.in_question))) == [name for name in asked if name in exists]
    for position in np.flatnonzero(found.in_question).tolist():
        assert asked[found.index_of(position)] == names[position]


def test_a_node_that_is_named_twice_is_judged_once() -> None:
    finder = requested(cluster_of(*"abcdefghijkl"))
    found = finder.find(ExtenderArgs(node_names=["c", "a", "c", "z"]))
    assert sorted(found.view.names) == ["a", "c"]
    assert [found.view.names[position] for position in found.positions[:3]] == ["c", "a", "c"]
    assert found.positions[3] == -1


def test_whole_nodes_leave_the_table_of_the_cluster_alone() -> None:
    cluster = cluster_of("a")
    found = requested(cluster).find(whole({"metadata": {"name": "a"}, "spec": {"unschedulable": True}}))
    assert found.view.unschedulable.tolist() == [True]
    assert cluster.view(None).unschedulable.tolist() == [False]


def test_nodes_that_the_cache_has_in_this_version_cost_no_copy() -> None:
    cluster = cluster_of("a", "b")
    nodes: list[Any] = [{"metadata": {"name": name, "resourceVersion": "1"}} for name in ("b", "a")]
    assert requested(cluster).find(whole(*nodes)).view._table is cluster.nodes
    nodes[1]["metadata"]["resourceVersion"] = "2"
    assert requested(cluster).find(whole(*nodes)).view._table is not cluster.nodes


@pytest.mark.parametrize("node", [5, [], {"metadata": 5}, {"metadata": {"name": "b"}, "spec": {"taints": 5}}])
def test_which_of_the_nodes_cannot_be_read(node: object) -> None:
    with pytest.raises(DecodeError, match=r"Nodes\.items\[1\]: "):
        find(whole({"metadata": {"name": "a"}}, node))


def test_a_node_without_a_name_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"a node has no metadata\.name"):
        find(whole({}))


def test_a_malformed_quantity_is_refused() -> None:
    with pytest.raises(QuantityError, match="'many'"):
        find(whole({"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "many"}}}))


def test_a_list_that_came_before_is_found_again_until_nodes_come_or_go() -> None:
    cluster = cluster_of("a", "b")
    finder = requested(cluster)
    args = ExtenderArgs(node_names=["b", "c", "a"])
    first = finder.find(args)
    assert finder.find(args).positions is first.positions
    cluster.apply_node(make_node("c"))
    assert finder.find(args).unknown == []
    cluster.remove_node("a")
    assert finder.find(args).unknown == ["a"]


def test_a_node_as_go_writes_it_is_known_by_its_beginning() -> None:
    cluster = cluster_of("a", "b")
    begun = '{"metadata":{"name":"%s","uid":"0f-1","resourceVersion":"%d","labels":{}},"spec":{"unschedulable":true}}'
    nodes = tuple(msgspec.Raw((begun % of).encode()) for of in (("b", 1), ("a", 2)))
    found = requested(cluster).find(ExtenderArgs(nodes=NodeList(nodes)))
    assert found.names == ["b", "a"]
    # What the cache has in this version is not read again.
    assert found.view.unschedulable[found.positions].tolist() == [False, True]

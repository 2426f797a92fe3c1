import gc
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from numpy.typing import NDArray

from extender_service.cluster.amounts.requests import HostPort, host_ports, pod_requests, request_shape
from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.selection.label_sets import PodSelector
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.kube.parsing.selectors import label_set_selector
from extender_service.kube.types.core import ContainerImage, Node, Pod, Taint
from tests.support.objects import make_node, make_pod

GPU = "nvidia.com/gpu"
RESOURCES = ("cpu", "memory", "pods", GPU, "example.com/nobody-has-this")
DEDICATED = Taint(key="dedicated", value="ml", effect="NoSchedule")


@pytest.fixture
def cluster() -> Cluster:
    """Nodes a, b and c in rows 0, 1 and 3; row 2 is free, and row 4 is of a node that only a pod names."""
    cluster = Cluster()
    cluster.apply_node(make_node("a", {"cpu": "1", "pods": "10"}, labels={"zone": "x"}))
    cluster.apply_node(make_node("b", {"cpu": "2", GPU: "8"}, labels={"zone": "y"}, taints=[DEDICATED]))
    cluster.apply_node(make_node("gone"))
    cluster.apply_node(make_node("c", {"cpu": "3"}, unschedulable=True))
    cluster.remove_node("gone")
    cluster.apply_pod(make_pod("web", "a", requests={"cpu": "100m"}, ports=[80]))
    cluster.apply_pod(make_pod("train", "b", requests={"cpu": "1", GPU: "2"}))
    cluster.apply_pod(make_pod("filler", "gone", requests={"cpu": "1"}))
    cluster.apply_pod(make_pod("early", "later", requests={"cpu": "1"}))
    cluster.remove_pod(("default", "filler"))
    return cluster


def slot_of(cluster: Cluster, pod_name: str) -> int:
    return cluster._slot_by_key["default", pod_name]


def ports_of(view: NodeView) -> list[set[HostPort]]:
    numbers, sets = view.port_sets()
    found = [sets[number] for number in numbers]
    assert None not in found
    return [set(ports or ()) for ports in found]


def taints_of(view: NodeView) -> list[tuple[Taint, ...] | None]:
    return [view.taint_sets[number] for number in view.taint_set]


def labels_of(view: NodeView, key: str) -> list[str | None]:
    numbers, column = view.label(key)
    return [None if number == ABSENT else column.values.values[number] for number in numbers]


def offered(view: NodeView, resource: str) -> list[int]:
    amounts: list[int] = view.allocatable(view.dimension(resource)).tolist()
    return amounts


def requested(view: NodeView, resource: str) -> list[int]:
    amounts: list[int] = view.requested(view.dimension(resource)).tolist()
    return amounts


def test_the_whole_table_is_seen_with_its_free_rows(cluster: Cluster) -> None:
    view = cluster.view(None)
    assert len(view) == 5
    assert view.rows.tolist() == [0, 1, 2, 3, 4]
    assert view.exists.tolist() == [True, True, False, True, False]
    assert [name for name, exists in zip(view.names, view.exists, strict=True) if exists] == ["a", "b", "c"]
    assert offered(view, "cpu") == [1000, 2000, 0, 3000, 0]
    assert requested(view, "cpu") == [100, 1000, 0, 0, 1000]
    assert labels_of(view, "zone") == ["x", "y", None, None, None]


def test_rows_are_seen_in_the_order_asked_for(cluster: Cluster) -> None:
    view = cluster.view(cluster.nodes.rows_named(["c", "b"]))
    assert len(view) == 2
    assert view.names == ["c", "b"]
    assert view.exists.all()
    assert view.unschedulable.tolist() == [True, False]
    assert taints_of(view) == [(), (DEDICATED,)]
    assert labels_of(view, "zone") == [None, "y"]
    assert offered(view, "cpu") == [3000, 2000]
    assert offered(view, GPU) == [0, 8]
    assert requested(view, GPU) == [0, 2]
    assert ports_of(cluster.view(cluster.nodes.rows_named(["c", "a"]))) == [set(), {("0.0.0.0", "TCP", 80)}]


def test_a_resource_that_nobody_has_is_zero_everywhere(cluster: Cluster) -> None:
    view = cluster.view(cluster.nodes.rows_named(["a", "b"]))
    assert view.dimension("example.com/fpga") == -1
    assert offered(view, "example.com/fpga") == requested(view, "example.com/fpga") == [0, 0]


def test_nodes_are_found_by_name(cluster: Cluster) -> None:
    assert cluster.view(None).is_named(["c", "a", "nobody"]).tolist() == [True, False, False, True, False]
    assert cluster.view(cluster.nodes.rows_named(["c", "b"])).is_named(["c"]).tolist() == [True, False]
    assert not cluster.view(None).is_named([]).any()


@pytest.mark.parametrize("names", [None, ["c", "b", "a"]])
def test_a_narrower_view_shows_the_same_nodes(cluster: Cluster, names: list[str] | None) -> None:
    view = cluster.view(None if names is None else cluster.nodes.rows_named(names))
    positions = np.array([3, 1] if names is None else [0, 1])
    narrow = view.at(positions)
    assert narrow.names == ["c", "b"]
    assert offered(narrow, "cpu") == [3000, 2000]
    assert requested(narrow, "cpu") == [0, 1000]
    assert requested(narrow.at(np.array([1])), "cpu") == [1000]


@pytest.mark.parametrize(("names", "positions"), [(None, [3, 1]), (["c", "b", "a"], [0, 1])])
def test_nodes_are_named_by_their_positions(cluster: Cluster, names: list[str] | None, positions: list[int]) -> None:
    view = cluster.view(None if names is None else cluster.nodes.rows_named(names))
    assert view.names_at(np.array(positions)) == ["c", "b"]
    assert [view.name_at(position) for position in positions] == ["c", "b"]


@pytest.mark.parametrize("names", [None, ["c", "b", "a"]])
@pytest.mark.parametrize("is_changed", [False, True])
def test_a_mask_is_refused_in_place_of_positions(cluster: Cluster, names: list[str] | None, is_changed: bool) -> None:
    view = cluster.view(None if names is None else cluster.nodes.rows_named(names))
    if is_changed:
        view = view.changed(RowChanges([0], [slot_of(cluster, "train")], [1]))
    mask: NDArray[Any] = ~view.unschedulable
    for select in (view.at, view.names_at):
        with pytest.raises(TypeError, match=r"not by a mask: give mask\.nonzero\(\)\[0\]"):
            select(mask)
    assert view.at(mask.nonzero()[0]).names == view.names_at(mask.nonzero()[0])


@pytest.mark.parametrize("positions", [[1, 0], [], (1,), [True, False], 1, "b"])
def test_positions_that_are_no_array_are_refused(cluster: Cluster, positions: Any) -> None:
    view = cluster.view(cluster.nodes.rows_named(["c", "b"]))
    for select in (view.at, view.names_at):
        with pytest.raises(TypeError, match=r"by an array of their positions: give np\.array\(positions, np\.intp\)"):
            select(positions)
    assert view.names_at(np.array([1, 0], np.intp)) == ["b", "c"]


def test_a_node_is_found_where_it_is_in_the_view(cluster: Cluster) -> None:
    view = cluster.view(cluster.nodes.rows_named(["c", "a"]))
    assert view.positions_of(["a", "b", "nobody", "c"]).tolist() == [1, -1, -1, 0]
    assert (view.position_of("a"), view.position_of("b"), view.position_of("nobody")) == (1, -1, -1)
    assert cluster.view(None).positions_of(["c", "nobody", "b"]).tolist() == [3, -1, 1]
    assert view.positions_of([]).tolist() == []


def test_the_nodes_themselves_are_in_the_order_of_the_view(cluster: Cluster) -> None:
    whole, some = cluster.view(None), cluster.view(cluster.nodes.rows_named(["c", "a"]))
    assert [node and node.metadata.name for node in whole.objects] == ["a", "b", None, "c", None]
    assert [node and node.metadata.name for node in some.objects] == ["c", "a"]


def test_everywhere_is_the_whole_table_without_changes(cluster: Cluster) -> None:
    view = cluster.view(cluster.nodes.rows_named(["b"])).changed(RowChanges([0], [slot_of(cluster, "train")], [-1]))
    everywhere = view.everywhere()
    assert len(everywhere) == len(cluster.view(None))
    assert requested(everywhere, "cpu") == [100, 1000, 0, 0, 1000]
    assert not everywhere.is_changed
    assert view.is_changed
    assert requested(view, "cpu") == [0]


def test_images_are_shown_by_the_nodes_that_have_them(cluster: Cluster) -> None:
    node = make_node("c")
    has_web = structs.replace(node, status=structs.replace(node.status, images=(ContainerImage(("web:1",), 5),)))
    cluster.apply_node(has_web)
    view = cluster.view(cluster.nodes.rows_named(["c", "a"]))
    image = view.image("web:1")
    assert image is not None
    assert view.has_image(image).tolist() == [True, False]
    assert view.image("db:1") is None


def test_pods_are_counted_where_they_are_in_each_nodes_world(cluster: Cluster) -> None:
    view = cluster.view(cluster.nodes.rows_named(["c", "b", "a"]))
    cluster.apply_pod(make_pod("pending"))
    web, train, pending = (slot_of(cluster, name) for name in ("web", "train", "pending"))
    asked = np.array([web, train, pending])
    assert view.pods_among(asked).tolist() == [0, 1, 1]
    changed = view.changed(RowChanges([0, 0, 2], [web, pending, web], [1, 1, -1]))
    assert changed.pods_among(asked).tolist() == [2, 1, 0]
    assert changed.pods_among(np.array([train])).tolist() == [0, 1, 0]


def pods_of(view: NodeView) -> list[list[str]]:
    return [sorted(pod.name for pod in view.pods_at(position)) for position in range(len(view))]


def test_pods_are_shown_where_they_are_in_each_nodes_world(cluster: Cluster) -> None:
    cluster.apply_pod(make_pod("pending"))
    cluster.placements.place(make_pod("placed"), "uid-of-placed", "a")
    web, train, pending = (slot_of(cluster, name) for name in ("web", "train", "pending"))
    whole, some = cluster.view(None), cluster.view(cluster.nodes.rows_named(["c", "b", "a"]))
    assert pods_of(whole) == [["placed", "web"], ["train"], [], [], ["early"]]
    assert pods_of(some) == [[], ["train"], ["placed", "web"]]

    changed = some.changed(RowChanges([0, 0, 2], [web, pending, web], [1, 1, -1]))
    assert pods_of(changed) == [["pending", "web"], ["train"], ["placed"]]
    assert pods_of(changed.at(np.array([2, 1]))) == [["placed"], ["train"]]
    back = changed.changed(RowChanges([2, 1], [web, train], [1, -1]))
    assert pods_of(back) == [["pending", "web"], [], ["placed", "web"]]
    assert pods_of(some) == [[], ["train"], ["placed", "web"]]


def test_a_pod_that_stands_for_pods_alike_is_shown_for_each_of_them(cluster: Cluster) -> None:
    web = slot_of(cluster, "web")
    same_node = cluster.view(None).changed(RowChanges([], [], [])).at(np.array([0, 0, 0]))
    states = same_node.changed(RowChanges([1, 2, 2], [web] * 3, [1] * 3))
    assert pods_of(states) == [["web"], ["web", "web"], ["web", "web", "web"]]


def test_a_view_shows_pods_that_come_after_it_was_first_asked(cluster: Cluster) -> None:
    view = cluster.view(None)
    assert pods_of(view)[0] == ["web"]
    cluster.apply_pod(make_pod("next", "a"))
    assert pods_of(view)[0] == ["next", "web"]


def test_a_slot_has_a_pod_until_that_is_removed(cluster: Cluster) -> None:
    view = cluster.view(None)
    web, train = slot_of(cluster, "web"), slot_of(cluster, "train")
    cluster.remove_pod(("default", "web"))
    assert [view.has_pod(slot) for slot in (web, train, -1, len(cluster.pods.facts))] == [False, True, False, False]


def test_a_column_from_elsewhere_is_zero_past_its_end(cluster: Cluster) -> None:
    view = cluster.view(cluster.nodes.rows_named(["c", "a"]))
    assert view.by_row(np.array([7, 8])).tolist() == [0, 7]
    assert view.by_row(np.arange(cluster.nodes.capacity)).tolist() == [3, 0]


class CpuLeft:
    """What is left of CPU on each node, and the names of the nodes for which it was worked out."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, nodes: NodeView) -> NDArray[np.int64]:
        self.asked.append(nodes.names)
        cpu = nodes.dimension("cpu")
        return nodes.allocatable(cpu) - nodes.requested(cpu)


class CpuOffered:
    """How many milli-CPU each node offers, and the nodes that were asked about."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, nodes: NodeView) -> NDArray[np.int64]:
        self.asked.append(nodes.names)
        return nodes.allocatable(nodes.dimension("cpu"))


@pytest.fixture
def many() -> Cluster:
    """Nodes 0 to 9, with a CPU more each, and a pod on node 3."""
    cluster = Cluster()
    for number in range(10):
        cluster.apply_node(make_node(str(number), {"cpu": str(number)}))
    cluster.apply_pod(make_pod("pod", "3", requests={"cpu": "500m"}))
    return cluster


def test_what_was_worked_out_is_kept_until_its_nodes_change(many: Cluster) -> None:
    left = CpuLeft()
    some = many.nodes.rows_named(["4", "3", "0"])
    assert many.view(some).kept_by_room(left).tolist() == [4000, 2500, 0]
    assert many.view(None).kept_by_room(left).tolist()[:4] == [0, 1000, 2000, 2500]
    assert left.asked == [[str(number) for number in range(10)]]
    many.apply_pod(make_pod("another", "4", requests={"cpu": "1"}))
    assert many.view(some).kept_by_room(left).tolist() == [3000, 2500, 0]
    assert left.asked[1:] == [["4"]]


def test_what_is_asked_for_once_is_not_kept_beyond_a_few(many: Cluster) -> None:
    view = many.view(None)
    for number in range(1000):
        assert view.kept_by_room(times, number)[3] == number * 3000
        assert view.kept_by_facts(times, number)[3] == number * 3000
    by_room = view._memory.by_room
    assert len(by_room) == len(view._memory.by_facts) == 16
    # Of the last ones, it is known that they were asked for.
    view.kept_by_room(times, 999)
    view.kept_by_room(times, 100)
    assert [(times, (number,)) in by_room for number in (999, 100)] == [True, False]


def test_what_goes_by_the_nodes_alone_is_kept_while_pods_come_and_go(many: Cluster) -> None:
    offers = CpuOffered()
    rows = many.nodes.rows_named(["9", "1", "4"])
    many.view(None).kept_by_facts(offers)
    many.apply_pod(make_pod("another", "4", requests={"cpu": "1"}))
    assert many.view(rows).kept_by_facts(offers).tolist() == [9000, 1000, 4000]
    many.apply_node(make_node("4", {"cpu": "40"}))
    assert many.view(rows).kept_by_facts(offers).tolist() == [9000, 1000, 40_000]
    assert offers.asked[1:] == [["4"]]


def test_for_a_few_nodes_nothing_is_worked_out_elsewhere(many: Cluster) -> None:
    left = CpuLeft()
    few = many.nodes.rows_named(["4", "3"])
    assert many.view(few).kept_by_room(left).tolist() == [4000, 2500]
    assert left.asked == [["4", "3"]]
    many.view(None).kept_by_room(left)
    assert many.view(few).kept_by_room(left).tolist() == [4000, 2500]
    assert len(left.asked) == 2


def times(nodes: NodeView, factor: int, resource: str = "cpu") -> NDArray[np.int64]:
    return factor * nodes.allocatable(nodes.dimension(resource))


def test_functions_arguments_and_kinds_of_kept_columns_do_not_mix(many: Cluster) -> None:
    view, left, offers = many.view(None), CpuLeft(), CpuOffered()
    for _ in range(2):
        assert view.kept_by_facts(times, 2)[3] == view.kept_by_room(times, 2)[3] == 6000
        assert view.kept_by_facts(times, 3)[3] == 9000
        assert view.kept_by_facts(times, 3, "memory")[3] == 0
        assert view.kept_by_room(left)[3] == 2500
        assert view.kept_by_room(offers)[3] == 3000
        assert view.remembered(times, 5)[3] == 15_000


def test_a_number_that_stood_for_another_resource_before_does_not_mix_with_it(many: Cluster) -> None:
    for offered in ({}, {"a.example/x": "3"}, {}, {"b.example/y": "3"}):
        many.apply_node(make_node("4", {"cpu": "4", **offered}))
        scores = many.view(None).kept_by_room(times, 1, "b.example/y")
    assert scores[4] == 3


def doubled(_nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
    return 2 * scores


def test_a_plugin_cannot_write_to_what_is_kept(many: Cluster) -> None:
    left = CpuLeft()
    for _ in range(3):  # computed, found again, brought up to date
        scores = many.view(None).kept_by_room(left)
        with pytest.raises(ValueError, match="read-only"):
            scores += 7
        many.apply_pod(make_pod("another", "4", requests={"cpu": "1"}))
    assert many.view(None).kept_by_room(left).tolist()[:5] == [0, 1000, 2000, 2500, 3000]


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("names", [None, ["b", "a"]])
def test_a_plugin_cannot_write_to_what_other_plugins_see(
    cluster: Cluster, names: list[str] | None, is_changed: bool
) -> None:
    view = cluster.view(None if names is None else cluster.nodes.rows_named(names))
    if is_changed:
        view = view.changed(RowChanges([0], [slot_of(cluster, "web")], [1]))
    cpu = view.dimension("cpu")
    amounts = [view.requested(cpu), view.requested_of((cpu, -1)), view.requested_of_unoffered(RESOURCES[-1])]
    shared: list[NDArray[np.generic]] = [*amounts, *view.label("zone")[1].integers()]
    if is_changed:
        shared += [view.port_sets()[0], view.added("pods", lambda slots: np.ones(len(slots), np.int64))]
    for array in shared:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7


def test_what_is_remembered_of_an_array_ends_when_the_array_changes(many: Cluster) -> None:
    left = CpuLeft()
    for requests, most in (("1", 3000), ("2", 2000), ("3", 1000)):
        many.apply_pod(make_pod("another", "4", requests={"cpu": requests}))
        view = many.view(None)
        scores = view.kept_by_room(left)
        assert scores[4] == most
        assert view.remembered_at(scores, doubled)[4] == 2 * most
        assert view.remembered_at(scores, doubled) is view.remembered_at(view.kept_by_room(left), doubled)


def both(nodes: NodeView) -> NDArray[np.int64]:
    cpu = nodes.dimension("cpu")
    return np.stack([nodes.allocatable(cpu), nodes.requested(cpu)])


def test_a_kept_array_may_have_a_line_for_each_of_several_facts(many: Cluster) -> None:
    view = many.view(many.nodes.rows_named(["4", "3", "0"]))
    assert view.kept_by_room(both).tolist() == [[4000, 3000, 0], [0, 500, 0]]


def test_a_function_that_would_never_be_found_again_is_refused(many: Cluster) -> None:
    view = many.view(None)

    def local(nodes: NodeView) -> NDArray[np.int64]:
        return nodes.allocatable(0)

    for function in (local, lambda nodes: nodes.allocatable(0), partial(times, factor=2)):
        for keep in (view.kept_by_facts, view.kept_by_room, view.remembered, partial(view.remembered_at, 1)):
            with pytest.raises(TypeError, match="function of a module or a method"):
                keep(function)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unhashable"):
        view.kept_by_facts(times, [2])  # type: ignore[arg-type]


def test_in_a_changed_world_room_is_worked_out_for_it_alone(many: Cluster) -> None:
    left = CpuLeft()
    view = many.view(None)
    view.kept_by_room(left)
    changed = view.changed(RowChanges([3], [slot_of(many, "pod")], [-1]))
    assert changed.kept_by_room(left).tolist()[:4] == [0, 1000, 2000, 3000]
    assert view.kept_by_room(left).tolist()[:4] == [0, 1000, 2000, 2500]


def test_in_a_changed_world_pods_come_and_go_on_single_nodes(cluster: Cluster) -> None:
    view = cluster.view(cluster.nodes.rows_named(["a", "b", "c"]))
    web, train = slot_of(cluster, "web"), slot_of(cluster, "train")
    changed = view.changed(RowChanges([0, 1, 2, 2], [web, train, web, train], [-1, -1, 1, 1]))
    assert requested(changed, "cpu") == [0, 0, 1100]
    assert requested(changed, "pods") == [0, 0, 2]
    assert requested(changed, GPU) == [0, 0, 2]
    assert offered(changed, "cpu") == [1000, 2000, 3000]
    assert ports_of(changed) == [set(), set(), {("0.0.0.0", "TCP", 80)}]
    assert requested(view, "cpu") == [100, 1000, 0]
    assert ports_of(view) == [{("0.0.0.0", "TCP", 80)}, set(), set()]


def test_changes_go_with_their_node_into_a_narrower_view(cluster: Cluster) -> None:
    web, train = slot_of(cluster, "web"), slot_of(cluster, "train")
    changed = cluster.view(None).changed(RowChanges([0, 3], [web, train], [-1, 1]))
    narrow = changed.at(np.array([3, 1]))
    assert requested(narrow, "cpu") == [1000, 1000]
    assert requested(narrow, GPU) == [2, 2]
    assert requested(narrow.at(np.array([0])), "pods") == [1]


def test_taking_one_of_two_pods_with_the_same_host_port_frees_it_as_in_kube_scheduler(cluster: Cluster) -> None:
    cluster.apply_pod(make_pod("same-port", "a", ports=[80, 81]))
    view = cluster.view(cluster.nodes.rows_named(["a"]))
    changed = view.changed(RowChanges([0], [slot_of(cluster, "web")], [-1]))
    assert ports_of(changed) == [{("0.0.0.0", "TCP", 81)}]


def test_nodes_that_came_along_are_seen_in_place_of_the_known_ones(cluster: Cluster) -> None:
    table = cluster.with_nodes(
        [make_node("a", {"cpu": "8", "example.com/fpga": "1"}, labels={"zone": "z"}), make_node("new", {"cpu": "5"})]
    )
    view = cluster.view(table.rows_named(["new", "a"]), table)
    assert offered(view, "cpu") == [5000, 8000]
    assert offered(view, "example.com/fpga") == [0, 1]
    assert requested(view, "cpu") == [0, 100]
    assert labels_of(view, "zone") == [None, "z"]
    changed = view.changed(RowChanges([0], [slot_of(cluster, "train")], [1]))
    assert requested(changed, GPU) == [2, 0]
    assert requested(changed, "example.com/fpga") == [0, 0]

    assert cluster.node_names() == ["a", "b", "c"]
    before = cluster.view(cluster.nodes.rows_named(["a", "new"]))
    assert offered(before, "cpu")[0] == 1000
    assert labels_of(before, "zone")[0] == "x"
    assert cluster.nodes.rows_named(["new"]).tolist() == [-1]
    assert before.dimension("example.com/fpga") == -1


@dataclass
class World:
    """One node on its own, and how a view should show it."""

    node: Node
    pods: list[Pod] = field(default_factory=list)
    ports: set[HostPort] = field(default_factory=set)

    def add(self, pod: Pod) -> None:
        self.pods.append(pod)
        self.ports |= host_ports(pod.spec)

    def take(self, pod: Pod) -> None:
        self.pods.remove(pod)
        self.ports -= host_ports(pod.spec)

    def requested(self, resource: str) -> int:
        if resource == "pods":
            return len(self.pods)
        return sum(dict(pod_requests(request_shape(pod.spec)).amounts).get(resource, 0) for pod in self.pods)


resource_lists = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["0", "100m", "1"]), GPU: st.sampled_from(["0", "1", "2"])}
)
node_numbers = st.integers(0, 4)
pods = st.lists(
    st.tuples(node_numbers, resource_lists, st.lists(st.sampled_from([80, 81, 82]), max_size=2, unique=True)),
    max_size=12,
)


@given(
    pods,
    st.lists(st.tuples(st.booleans(), node_numbers, st.integers(0, 11)), max_size=10),
    st.none() | st.permutations(range(5)),
    st.lists(node_numbers, unique=True),
)
def test_each_node_of_a_changed_view_is_as_if_its_pods_had_been_there_all_the_time(
    running: list[tuple[int, dict[str, str], list[int]]],
    wanted_changes: list[tuple[bool, int, int]],
    order: Sequence[int] | None,
    narrow_to: list[int],
) -> None:
    cluster = Cluster()
    worlds = [World(make_node(str(number))) for number in range(5)]
    for world in worlds:
        cluster.apply_node(world.node)
    known = []
    for number, (node, requests, ports) in enumerate(running):
        pod = make_pod(f"pod-{number}", str(node), requests={**requests}, ports=ports)
        known.append(pod)
        cluster.apply_pod(pod)
        worlds[node].add(pod)

    view = cluster.view(None if order is None else np.array(order))
    shown = worlds if order is None else [worlds[number] for number in order]
    positions, slots, signs = [], [], []
    for is_added, position, number in wanted_changes:
        if number < len(known) and is_added != (known[number] in shown[position].pods):
            (shown[position].add if is_added else shown[position].take)(known[number])
            positions.append(position)
            slots.append(slot_of(cluster, known[number].metadata.name))
            signs.append(1 if is_added else -1)
    view = view.changed(RowChanges(positions, slots, signs))

    narrow = view.at(np.array(narrow_to, np.intp))
    for seen, expected in ((view, shown), (narrow, [shown[position] for position in narrow_to])):
        assert seen.names == [world.node.metadata.name for world in expected]
        assert ports_of(seen) == [world.ports for world in expected]
        for resource in RESOURCES:
            # Of what no node offers, nothing is known.
            is_offered = seen.dimension(resource) >= 0
            assert requested(seen, resource) == [is_offered * world.requested(resource) for world in expected]


def test_a_resource_that_only_pods_ask_for_is_zero_until_a_node_offers_it(cluster: Cluster) -> None:
    cluster.apply_pod(make_pod("running", "a", requests={"example.com/taken": "1"}))
    cluster.apply_pod(make_pod("waiting", requests={"example.com/taken": "3"}))

    def seen() -> tuple[list[int], list[int], list[int]]:
        view = cluster.view(cluster.nodes.rows_named(["c", "a"]))
        changed = view.changed(RowChanges([1], [slot_of(cluster, "waiting")], [1]))
        resource = "example.com/taken"
        return offered(view, resource), requested(view, resource), requested(changed, resource)

    assert cluster.view(None).dimension("example.com/taken") == -1
    assert seen() == ([0, 0], [0, 0], [0, 0])
    cluster.apply_node(make_node("new", {"example.com/taken": "5"}))
    assert seen() == ([0, 0], [0, 1], [0, 4])
    cluster.remove_node("new")
    assert seen() == ([0, 0], [0, 0], [0, 0])
    view = cluster.view(cluster.nodes.rows_named(["c", "a"]))
    changed = view.changed(RowChanges([1], [slot_of(cluster, "waiting")], [1]))
    assert requested(changed.changed(RowChanges([1], [slot_of(cluster, "web")], [-1])), "cpu") == [0, 0]


def test_what_was_kept_is_brought_up_to_date_while_nobody_asks(many: Cluster) -> None:
    left = CpuLeft()
    for rows in (None, np.arange(9)):
        many.view(rows).kept_by_room(left)
        many.view(rows).kept_by_facts(left)
    many.apply_pod(make_pod("another", "4", requests={"cpu": "1"}))
    many.apply_node(make_node("5", {"cpu": "50"}))
    many.catch_up()
    assert left.asked[2:] == [["5"], ["4", "5"]]
    assert many.view(None).kept_by_room(left)[[4, 5]].tolist() == [3000, 50_000]
    assert len(left.asked) == 4


def test_a_view_of_a_full_table_knows_its_last_row() -> None:
    cluster = Cluster()
    for number in range(cluster.nodes.capacity):
        cluster.apply_node(make_node(str(number)))
    last = cluster.nodes.size - 1
    assert last == cluster.nodes.capacity - 1
    view = cluster.view(np.array([last, 0]))
    assert view.positions_of(["0", "nobody", str(last), "1"]).tolist() == [1, -1, 0, -1]


def test_each_selector_has_its_own_count_of_the_pods_that_came(cluster: Cluster) -> None:
    for name in ("web", "db"):
        pod = make_pod(name)
        cluster.apply_pod(structs.replace(pod, metadata=structs.replace(pod.metadata, labels={"app": name})))
    changed = cluster.view(cluster.nodes.rows_named(["a", "b"])).changed(
        RowChanges([0, 1, 1], [slot_of(cluster, "web"), slot_of(cluster, "web"), slot_of(cluster, "db")], [1, 1, 1])
    )

    def came(labels: dict[str, str]) -> list[int]:
        counts: list[int] = changed.pods_added((PodSelector(None, label_set_selector(labels)),)).tolist()
        return counts

    assert came({"app": "web"}) == [1, 1]
    assert came({"app": "db"}) == [0, 1]
    assert came({}) == [1, 2]


@contextmanager
def without_garbage_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_a_table_for_one_call_ends_with_the_call(cluster: Cluster) -> None:
    with without_garbage_collector():
        table = cluster.with_nodes([make_node("a", {"cpu": "9"})])
        view = cluster.view(None, table)
        assert view.kept_by_facts(times, 1).tolist()[0] == 9000
        assert (times, (1,)) in view._memory.by_facts
        was_there = weakref.ref(table)
        del table, view
        assert was_there() is None


def test_nodes_that_are_kept_stay_in_their_own_worlds(cluster: Cluster) -> None:
    web, train = slot_of(cluster, "web"), slot_of(cluster, "train")
    changed = cluster.view(cluster.nodes.rows_named(["a", "c"])).changed(RowChanges([0, 1], [web, train], [-1, 1]))
    kept = changed.to_keep()
    assert kept.is_changed
    assert requested(kept, "cpu") == [0, 1000]
    assert ports_of(kept) == [set(), set()]

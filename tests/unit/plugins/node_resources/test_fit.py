from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import Status, unschedulable
from extender_service.kube.types.core import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from extender_service.plugins.node_resources.args import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
)
from extender_service.plugins.node_resources.fit import (
    EXACT_SHARES,
    NodeResourcesFit,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from extender_service.plugins.node_resources.usages import Offered, Usages
from extender_service.plugins.shared.shape import UtilizationShapePoint, broken_linear
from tests.support.clusters.plugin_worlds import (
    CPU,
    DISK,
    FPGA,
    GPU,
    MEMORY,
    Amounts,
    PlainNode,
    PlainPod,
    PluginWorld,
    allocatable,
    assert_equal_on_nodes,
    empty_world,
    existing,
    rejected,
    requests,
    worlds,
)
from tests.support.go_integers import quotient, wrapped
from tests.support.memory import MIB, peak_bytes
from tests.support.shapes import line, shapes

DEFAULTS = {CPU: 100, MEMORY: 200 * 1024 * 1024}
SCALARS = (GPU, FPGA)
DEVICES = "deviceclass.resource.kubernetes.io/large"

busy_worlds = worlds(offers=allocatable, pod_requests=requests)


def lacking(node: PlainNode, wanted: Amounts, ignored: set[str]) -> Status | None:
    """fitsRequest of the reference; scalar resources by name."""
    reasons = ["Too many pods"] if len(node.pods) + 1 > node.allocatable["pods"] else []
    for resource in (CPU, MEMORY, DISK, *sorted(SCALARS)):
        amount = wanted.get(resource, 0)
        free = node.allocatable.get(resource, 0) - node.requested(resource)
        if resource not in ignored and amount > 0 and amount > free:
            reasons.append(f"Insufficient {resource}")
    return unschedulable(*reasons) if reasons else None


def fit(world: PluginWorld, **args: Any) -> NodeResourcesFit:
    return NodeResourcesFit(NodeResourcesFitArgs(**args), world.handle)


@settings(max_examples=50)
@given(world=busy_worlds, wanted=requests)
def test_nodes_are_rejected_with_all_that_they_lack(world: PluginWorld, wanted: Amounts) -> None:
    pod = PlainPod("new", wanted).to_pod()
    state, plugin = CycleState(pod), fit(world)
    plugin.pre_filter(state, pod)
    expected = [lacking(node, wanted, set()) for node in existing(world)]
    assert_equal_on_nodes(world, rejected(plugin, state, pod, world), expected)


@pytest.mark.parametrize(
    ("args", "ignored"),
    [
        ({"ignored_resources": (GPU,)}, {GPU}),
        ({"ignored_resource_groups": ("other.org",)}, {FPGA}),
        ({"ignored_resources": (CPU,), "ignored_resource_groups": ("example.com", "memory")}, {GPU}),
    ],
)
def test_extended_resources_can_be_ignored(args: dict[str, Any], ignored: set[str]) -> None:
    world = empty_world()
    world.handle.cluster.apply_node(PlainNode("a", allocatable={"pods": 5}).to_node())
    world.view = world.handle.cluster.view(None)
    wanted = dict.fromkeys((CPU, MEMORY, GPU, FPGA), 1)
    pod = PlainPod("new", wanted).to_pod()
    state, plugin = CycleState(pod), fit(world, **args)
    plugin.pre_filter(state, pod)
    assert rejected(plugin, state, pod, world) == [lacking(PlainNode("a", allocatable={"pods": 5}), wanted, ignored)]


@pytest.mark.parametrize(
    "args", [{"ignored_resources": (DEVICES,)}, {"ignored_resource_groups": ("deviceclass.resource.kubernetes.io",)}]
)
def test_devices_by_the_name_of_their_class_cannot_be_ignored(args: dict[str, Any]) -> None:
    world = empty_world()
    world.handle.cluster.apply_node(PlainNode("a", allocatable={"pods": 5}).to_node())
    world.view = world.handle.cluster.view(None)
    pod = PlainPod("new", {DEVICES: 1}).to_pod()
    state, plugin = CycleState(pod), fit(world, **args)
    plugin.pre_filter(state, pod)
    assert rejected(plugin, state, pod, world) == [unschedulable(f"Insufficient {DEVICES}")]


def test_an_amount_that_overflows_when_it_is_added_up_asks_for_nothing() -> None:
    """Of two containers with the most that int64 holds, -2 is left; as less than nothing, Filter ignores it."""
    world = empty_world()
    world.handle.cluster.apply_node(PlainNode("a", allocatable={"pods": 5}).to_node())
    world.handle.cluster.apply_pod(PlainPod("running", {GPU: 9 * 10**18}).to_pod("a"))
    world.view = world.handle.cluster.view(None)
    most = Container(resources=ResourceRequirements({GPU: str(2**63 - 1)}))
    pod = Pod(ObjectMeta(name="new"), PodSpec(containers=(most, most)))
    state, plugin = CycleState(pod), fit(world)
    plugin.pre_filter(state, pod)
    assert rejected(plugin, state, pod, world) == [None]


@pytest.mark.parametrize(
    ("running", "fits"),
    [
        ((2**63 - 1,), False),
        ((2**63 - 1, 1000), True),
        ((2**62, 2**62 - 1), False),
        ((2**62, 2**62 + 1), True),
        ((), False),
    ],
)
def test_a_sum_that_overflows_leaves_room_of_what_no_node_offers(running: tuple[int, ...], fits: bool) -> None:
    world = empty_world()
    for name in ("a", "b"):
        world.handle.cluster.apply_node(PlainNode(name, allocatable={"pods": 5}).to_node())
    for number, amount in enumerate(running):
        world.handle.cluster.apply_pod(PlainPod(f"running-{number}", {GPU: amount}).to_pod("a"))
    world.view = world.handle.cluster.view(None)
    pod = PlainPod("new", {FPGA: 0, GPU: 5}).to_pod()
    state, plugin = CycleState(pod), fit(world)
    plugin.pre_filter(state, pod)
    lacks = unschedulable(f"Insufficient {GPU}")
    assert rejected(plugin, state, pod, world) == [None if fits else lacks, lacks]
    assert plugin.needs(state, world.view) is None


def test_thousands_of_resources_that_no_node_offers_take_no_array_each() -> None:
    """Each is a reason all the same."""
    cluster = Cluster()
    for number in range(1_000):
        cluster.apply_node(PlainNode(f"node-{number}", allocatable={CPU: 4_000, "pods": 10}).to_node())
    names = [f"example.com/r{number:04}" for number in range(2_000)]
    pod = PlainPod("new", {CPU: 5_000, **dict.fromkeys(names, 1)}).to_pod()
    plugin, view = (
        NodeResourcesFit(NodeResourcesFitArgs(), Handle(cluster, ClusterFile(cluster, []))),
        cluster.view(None),
    )
    state = CycleState(pod)
    plugin.pre_filter(state, pod)

    def judge() -> None:
        rejections = plugin.filter(state, pod, view)
        assert rejections is not None
        assert len(rejections.rejected) == 1_000
        [key] = set(rejections.keys.tolist())
        assert rejections.status_of(key).reasons == tuple(f"Insufficient {name}" for name in (CPU, *names))

    assert peak_bytes(judge) < 4 * MIB


def test_without_prefilter_there_is_no_filter() -> None:
    world = empty_world()
    pod = PlainPod("new", {}).to_pod()
    with pytest.raises(PluginError, match='error reading "PreFilterNodeResourcesFit" from cycleState: not found'):
        fit(world).filter(CycleState(pod), pod, world.view)


# Scores, as the reference computes them for one node after another, in Go's integers.


def usages(node: PlainNode, wanted: Amounts, resources: list[tuple[str, int]]) -> list[tuple[int, int, int]]:
    """(weight, requested, allocatable) of the resources that take part in the score."""
    found = []
    for resource, weight in resources:
        amount = wanted.get(resource, DEFAULTS.get(resource, 0))
        offered = node.allocatable.get(resource, 0)
        if offered == 0 or (amount == 0 and resource in SCALARS) or resource == "odd":
            continue
        found.append((weight, node.requested(resource, DEFAULTS.get(resource, 0)) + amount, offered))
    return found


def least(requested: int, offered: int) -> int:
    return 0 if requested > offered else quotient(wrapped((offered - requested) * 100), offered)


def most(requested: int, offered: int) -> int:
    return quotient(wrapped(min(requested, offered) * 100), offered)


def weighted_mean(score: Callable[[int, int], int], used: list[tuple[int, int, int]]) -> int:
    weights = sum(weight for weight, _, _ in used)
    total = wrapped(sum(score(requested, offered) * weight for weight, requested, offered in used))
    return quotient(total, weights) if weights else 0


def ratio(shape: list[tuple[int, int]], used: list[tuple[int, int, int]]) -> int:
    total = weights = 0
    for weight, requested, offered in used:
        score = line(shape, 100 if requested > offered else quotient(wrapped(requested * 100), offered))
        if score > 0:
            total += score * weight
            weights += weight
    return int(total / weights + 0.5) if weights else 0


weighted_resources = st.lists(
    st.tuples(st.sampled_from([CPU, MEMORY, DISK, GPU, FPGA, "odd"]), st.integers(1, 100)),
    min_size=1,
    max_size=4,
    unique_by=lambda resource: resource[0],
)


def scored(world: PluginWorld, wanted: Amounts, strategy: ScoringStrategy, *, pre_score: bool) -> list[int]:
    pod = PlainPod("new", wanted).to_pod()
    state, plugin = CycleState(pod), fit(world, scoring_strategy=strategy)
    if pre_score:
        assert plugin.pre_score(state, pod, world.view) is None
    scores: list[int] = plugin.score(state, pod, world.view).tolist()
    return scores


def strategy(kind: str, resources: list[tuple[str, int]], **more: Any) -> ScoringStrategy:
    specs = tuple(ResourceSpec(name=name, weight=weight) for name, weight in resources)
    return ScoringStrategy(type=kind, resources=specs, **more)


@settings(max_examples=50)
@given(world=busy_worlds, wanted=requests, resources=weighted_resources, pre_score=st.booleans())
def test_least_allocated(
    world: PluginWorld, wanted: Amounts, resources: list[tuple[str, int]], pre_score: bool
) -> None:
    scores = scored(world, wanted, strategy("LeastAllocated", resources), pre_score=pre_score)
    expected = [weighted_mean(least, usages(node, wanted, resources)) for node in existing(world)]
    assert_equal_on_nodes(world, scores, expected)


@settings(max_examples=50)
@given(world=busy_worlds, wanted=requests, resources=weighted_resources)
def test_most_allocated(world: PluginWorld, wanted: Amounts, resources: list[tuple[str, int]]) -> None:
    scores = scored(world, wanted, strategy("MostAllocated", resources), pre_score=True)
    expected = [weighted_mean(most, usages(node, wanted, resources)) for node in existing(world)]
    assert_equal_on_nodes(world, scores, expected)


@settings(max_examples=50)
@given(world=busy_worlds, wanted=requests, resources=weighted_resources, shape=shapes)
def test_requested_to_capacity_ratio(
    world: PluginWorld, wanted: Amounts, resources: list[tuple[str, int]], shape: list[tuple[int, int]]
) -> None:
    points = tuple(UtilizationShapePoint(utilization=x, score=y) for x, y in shape)
    by_ratio = RequestedToCapacityRatioParam(shape=points)
    of_shape = strategy("RequestedToCapacityRatio", resources, requested_to_capacity_ratio=by_ratio)
    in_hundreds = [(x, 10 * y) for x, y in shape]
    expected = [ratio(in_hundreds, usages(node, wanted, resources)) for node in existing(world)]
    assert_equal_on_nodes(world, scored(world, wanted, of_shape, pre_score=True), expected)


int64s = (
    st.integers(-(2**63), 2**63 - 1)
    | st.integers(2**56, 2**57)
    | st.integers(-9, 9)
    | st.sampled_from([2**46, 2**53]).flatmap(lambda edge: st.integers(edge - 9, edge + 9))
    | st.integers(0, 2**46)
)


@given(
    used=st.lists(st.tuples(st.integers(1, 100), int64s, int64s), min_size=1, max_size=3),
    shape=shapes.map(lambda points: [(x, 10 * y) for x, y in points]),
)
def test_amounts_whose_hundredfold_is_beyond_int64_score_as_in_go(
    used: list[tuple[int, int, int]], shape: list[tuple[int, int]]
) -> None:
    weights, requested, offered = zip(*used, strict=True)
    of_node = Usages(weights, np.array(requested)[:, None], Offered.of(np.array(offered)[:, None]))
    counting = [usage for usage in used if usage[2]]
    assert least_allocated(of_node).tolist() == [weighted_mean(least, counting)]
    assert most_allocated(of_node).tolist() == [weighted_mean(most, counting)]
    assert requested_to_capacity_ratio(broken_linear(shape), of_node).tolist() == [ratio(shape, counting)]


@given(
    weights=st.tuples(st.integers(1, 100), st.integers(1, 100)),
    nodes=st.lists(st.tuples(st.tuples(int64s, int64s), st.tuples(int64s, int64s)), min_size=1, max_size=6),
)
def test_a_node_scores_the_same_whatever_the_others_have(
    weights: tuple[int, int], nodes: list[tuple[tuple[int, int], tuple[int, int]]]
) -> None:
    amounts = np.array(nodes, np.int64)  # as (node, resource, requested or offered)
    of_nodes = Usages(weights, amounts[:, :, 0].T, Offered.of(amounts[:, :, 1].T))
    expected = [
        weighted_mean(least, [(weight, *usage) for weight, usage in zip(weights, node, strict=True) if usage[1]])
        for node in nodes
    ]
    assert least_allocated(of_nodes).tolist() == expected


@settings(max_examples=1000)
@given(
    offered=st.integers(1, EXACT_SHARES) | st.integers(EXACT_SHARES - 99, EXACT_SHARES + 99) | st.integers(1, 300),
    share=st.integers(0, 100),
    off_by=st.integers(-2, 2),
)
def test_a_share_next_to_a_whole_percentage_is_rounded_as_in_go(offered: int, share: int, off_by: int) -> None:
    requested = max(0, offered - offered * share // 100 + off_by)
    of_node = Usages((1,), np.array([[requested]]), Offered.of(np.array([[offered]])))
    assert least_allocated(of_node).tolist() == [least(requested, offered)]


def test_an_empty_node_of_84_pebibytes_keeps_the_score_of_its_cpu() -> None:
    world = empty_world()
    world.handle.cluster.apply_node(PlainNode("a", allocatable={CPU: 1000, MEMORY: 84 * 2**50}).to_node())
    world.view = world.handle.cluster.view(None)
    by_both = strategy("LeastAllocated", [(CPU, 1), (MEMORY, 1)])
    # The free memory times 100 wraps to a negative number: 97 points and -95.
    assert scored(world, {CPU: 30, MEMORY: 0}, by_both, pre_score=True) == [1]


def test_a_node_that_offers_pods_beyond_int64_takes_none() -> None:
    world = empty_world()
    world.handle.cluster.apply_node(PlainNode("a", allocatable={"pods": 2**63}).to_node())
    world.handle.cluster.apply_pod(PlainPod("old", {}).to_pod("a"))
    world.view = world.handle.cluster.view(None)
    pod = PlainPod("new", {}).to_pod()
    state, plugin = CycleState(pod), fit(world)
    plugin.pre_filter(state, pod)
    assert rejected(plugin, state, pod, world) == [unschedulable("Too many pods")]


def test_what_a_node_does_not_lack_is_not_too_large_for_it_where_sums_overflow() -> None:
    cluster = Cluster(rules_of(34))
    # The API server takes amounts beyond int64, which Go wraps: what is left of them may be more than there is.
    cluster.apply_node(PlainNode("a", allocatable={CPU: 1000, MEMORY: 2**63, "pods": 1}).to_node())
    cluster.apply_pod(PlainPod("running", {MEMORY: 1}).to_pod("a"))
    handle = Handle(cluster, ClusterFile(cluster, []))
    plugin, pod = NodeResourcesFit(NodeResourcesFitArgs(), handle), PlainPod("new", {MEMORY: 1}).to_pod()
    state, view = CycleState(pod, rules=cluster.request_rules), cluster.view(None)
    plugin.pre_filter(state, pod)
    rejections = plugin.filter(state, pod, view)
    assert rejections is not None
    assert [rejections.status_of(key) for key in rejections.keys.tolist()] == [unschedulable("Too many pods")]

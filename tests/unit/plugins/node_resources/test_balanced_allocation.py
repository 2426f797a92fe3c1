import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.status import SKIP
from extender_service.plugins.node_resources.args import NodeResourcesBalancedAllocationArgs, ResourceSpec
from extender_service.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
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
    requests,
    worlds,
)
from tests.support.go_integers import wrapped
from tests.support.objects import make_pod


def score(node: PlainNode, wanted: Amounts, resources: list[str]) -> int:
    """balancedResourceScorer of the reference, in its order of operations."""
    fractions: list[float] = []
    total = 0.0
    for resource in resources:
        amount = wanted.get(resource, 0)
        offered = node.allocatable.get(resource, 0)
        if offered == 0 or (amount == 0 and resource in (GPU, FPGA)):
            continue
        fraction = min(float(node.requested(resource) + amount) / float(offered), 1.0)
        total += fraction
        fractions.append(fraction)
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = total / len(fractions)
        squares = 0.0
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return max(int((1 - deviation) * 100), -(2**63))


@settings(max_examples=50)
@given(
    world=worlds(offers=allocatable, pod_requests=requests),
    wanted=requests,
    resources=st.lists(st.sampled_from([CPU, MEMORY, DISK, GPU, FPGA]), min_size=1, unique=True),
    pre_score=st.booleans(),
)
def test_the_more_even_the_better(world: PluginWorld, wanted: Amounts, resources: list[str], pre_score: bool) -> None:
    args = NodeResourcesBalancedAllocationArgs(resources=tuple(ResourceSpec(name=name) for name in resources))
    plugin = NodeResourcesBalancedAllocation(args, world.handle)
    pod = PlainPod("new", wanted).to_pod()
    state = CycleState(pod)
    if pre_score:
        assert plugin.pre_score(state, pod, world.view) is None
    expected = [score(node, wanted, resources) for node in existing(world)]
    assert_equal_on_nodes(world, plugin.score(state, pod, world.view).tolist(), expected)


@pytest.mark.parametrize(
    ("offers", "expected"),
    [
        # The API server takes amounts beyond int64, which Go wraps.
        ({CPU: 4000, MEMORY: 84 * 2**50}, 62),
        ({CPU: 4000, MEMORY: 2**64 - 2**40}, -52428712),
        ({CPU: 4000, MEMORY: 2**64 - 1}, -(2**63)),
        ({CPU: 4000, MEMORY: 2**64 - 1, DISK: 10}, -(2**63)),
    ],
)
def test_nodes_that_offer_more_than_int64_holds_score_as_in_go(offers: Amounts, expected: int) -> None:
    world = empty_world()
    world.handle.cluster.apply_node(PlainNode("a", allocatable=offers).to_node())
    args = NodeResourcesBalancedAllocationArgs(resources=tuple(ResourceSpec(name=name) for name in offers))
    plugin = NodeResourcesBalancedAllocation(args, world.handle)
    wanted = {CPU: 1000, MEMORY: 2**60, DISK: 1}
    pod = PlainPod("new", wanted).to_pod()
    node = PlainNode("a", allocatable={name: wrapped(amount) for name, amount in offers.items()})
    found = plugin.score(CycleState(pod), pod, world.handle.cluster.view(None)).tolist()
    assert found == [score(node, wanted, list(offers))] == [expected]


@pytest.mark.parametrize(("minor", "expected"), [(31, 50), (33, 0)])
def test_without_pre_score_a_pod_without_requests_is_scored_the_same_each_time(minor: int, expected: int) -> None:
    cluster = Cluster(rules_of(minor))
    cluster.apply_node(PlainNode("a", allocatable={CPU: 1000, MEMORY: 1000}).to_node())
    cluster.apply_pod(PlainPod("big", {CPU: 1000}).to_pod("a"))
    args = NodeResourcesBalancedAllocationArgs(resources=(ResourceSpec(name=CPU), ResourceSpec(name=MEMORY)))
    plugin = NodeResourcesBalancedAllocation(args, Handle(cluster, ClusterFile(cluster, [])))
    pod = PlainPod("new", {}).to_pod()
    state, view = CycleState(pod, rules=cluster.request_rules), cluster.view(None)
    assert [plugin.score(state, pod, view).tolist() for _ in range(2)] == [[expected], [expected]]


@pytest.mark.parametrize(("resource", "skips"), [("requests.example.com/slots", False), ("example.com/other", True)])
def test_a_pod_that_requests_only_what_has_no_score_is_no_best_effort_pod(resource: str, skips: bool) -> None:
    cluster = Cluster(rules_of(37))
    cluster.apply_node(PlainNode("a", allocatable={CPU: 1000}).to_node())
    args = NodeResourcesBalancedAllocationArgs(resources=(ResourceSpec(name="requests.example.com/slots"),))
    plugin = NodeResourcesBalancedAllocation(args, Handle(cluster, ClusterFile(cluster, [])))
    pod = make_pod("new", requests={resource: "1"})
    state, view = CycleState(pod, rules=cluster.request_rules), cluster.view(None)
    assert plugin.pre_score(state, pod, view) == (SKIP if skips else None)
    assert plugin.score(state, pod, view).tolist() == [0 if skips else 75]

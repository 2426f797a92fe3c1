import math

from hypothesis import given, settings
from hypothesis import strategies as st

from extender_service.framework.cycle_state import CycleState
from extender_service.plugins.node_resources.args import NodeResourcesBalancedAllocationArgs, ResourceSpec
from extender_service.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from tests.support.plugin_worlds import (
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
    existing,
    requests,
    worlds,
)


def score(node: PlainNode, wanted: Amounts, resources: list[str]) -> int:
    """balancedResourceScorer of the reference, in its order of operations."""
    fractions: list[float] = []
    total = 0.0
    for resource in resources:
        amount = wanted.get(resource, 0)
        offered = node.allocatable.get(resource, 0)
        if offered == 0 or (amount == 0 and resource in (GPU, FPGA)):
            continue
        fraction = min((node.requested(resource) + amount) / offered, 1.0)
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
    return int((1 - deviation) * 100)


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

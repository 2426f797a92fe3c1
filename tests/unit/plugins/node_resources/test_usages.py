from extender_service.framework.cycle_state import CycleState
from extender_service.plugins.node_resources.usages import (
    WeightedResource,
    usages,
    weighed_pod,
)
from tests.support.clusters.plugin_worlds import CPU, GPU, MEMORY, PlainNode, PlainPod, PluginWorld, empty_world


def world_of(*nodes: PlainNode) -> PluginWorld:
    world = empty_world()
    for node in nodes:
        world.handle.cluster.apply_node(node.to_node())
        for pod in node.pods:
            world.handle.cluster.apply_pod(pod.to_pod(node.name))
    world.view = world.handle.cluster.view(None)
    return world


RESOURCES = tuple(WeightedResource(name, 1) for name in (CPU, MEMORY, GPU, "odd"))


def test_a_pod_that_requests_nothing_weighs_something() -> None:
    state = CycleState(PlainPod("new", {}).to_pod())
    nodes = empty_world().handle.cluster.view(None)
    assert weighed_pod(state, nodes, RESOURCES, nonzero=True).amounts == (100, 200 * 1024 * 1024)
    assert weighed_pod(state, nodes, RESOURCES, nonzero=False).amounts == (0, 0)


def test_what_the_pod_and_those_on_the_node_take_of_what_is_offered() -> None:
    node = PlainNode("a", allocatable={CPU: 4000, MEMORY: 8, GPU: 2}, pods=[PlainPod("old", {CPU: 500, GPU: 1})])
    world = world_of(node, PlainNode("b", allocatable={CPU: 1000}))
    state = CycleState(PlainPod("new", {CPU: 1000, MEMORY: 3, GPU: 1, "odd": 1}).to_pod())
    pod = weighed_pod(state, world.view, RESOURCES, nonzero=False)
    found = usages(world.view, pod)
    assert found.requested.tolist() == [[1500, 1000], [3, 3], [2, 1]]
    assert found.offered.counts.tolist() == [[True, True], [True, False], [True, False]]
    assert found.offered.amounts.tolist() == [[4000, 1000], [8, 1], [2, 1]]


def test_a_scalar_resource_that_the_pod_does_not_request_takes_no_part() -> None:
    world = world_of(PlainNode("a", allocatable={CPU: 1, GPU: 1}))
    state = CycleState(PlainPod("new", {CPU: 0, MEMORY: 0}).to_pod())
    pod = weighed_pod(state, world.view, RESOURCES, nonzero=True)
    assert usages(world.view, pod).offered.counts.tolist() == [[True], [False]]

from extender_service.framework.interface import CycleState
from extender_service.plugins.resource_scoring import WeightedResource, pod_amounts, usages
from tests.unit.plugins.worlds import CPU, GPU, MEMORY, PlainNode, PlainPod, World, empty_world


def world_of(*nodes: PlainNode) -> World:
    world = empty_world()
    for node in nodes:
        world.handle.cluster.apply_node(node.to_node())
        for pod in node.pods:
            world.handle.cluster.apply_pod(pod.to_pod(node.name))
    world.view = world.handle.cluster.view(None)
    return world


RESOURCES = [WeightedResource(name, 1) for name in (CPU, MEMORY, GPU, "odd")]


def test_a_pod_that_requests_nothing_weighs_something() -> None:
    state = CycleState(PlainPod("new", {}).to_pod())
    assert pod_amounts(state, RESOURCES, nonzero=True) == [100, 200 * 1024 * 1024, 0, 0]
    assert pod_amounts(state, RESOURCES, nonzero=False) == [0, 0, 0, 0]


def test_what_the_pod_and_those_on_the_node_take_of_what_is_offered() -> None:
    node = PlainNode("a", allocatable={CPU: 4000, MEMORY: 8, GPU: 2}, pods=[PlainPod("old", {CPU: 500, GPU: 1})])
    world = world_of(node, PlainNode("b", allocatable={CPU: 1000}))
    cpu, memory, gpu = usages(world.view, RESOURCES, [1000, 3, 1, 1], nonzero=False)
    assert (cpu.requested.tolist(), cpu.allocatable.tolist()) == ([1500, 1000], [4000, 1000])
    assert memory.counts.tolist() == [True, False]
    assert (memory.requested.tolist()[0], memory.allocatable.tolist()[0]) == (3, 8)
    assert (gpu.requested.tolist()[0], gpu.allocatable.tolist()[0]) == (2, 2)


def test_a_scalar_resource_that_the_pod_does_not_request_takes_no_part() -> None:
    world = world_of(PlainNode("a", allocatable={CPU: 1, GPU: 1}))
    assert [usage.allocatable.tolist() for usage in usages(world.view, RESOURCES, [0, 0, 0, 0], nonzero=True)] == [[1]]

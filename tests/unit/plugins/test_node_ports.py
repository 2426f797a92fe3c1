import pytest
from hypothesis import given

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, unschedulable
from extender_service.plugins.node_ports import NodePorts, conflict
from tests.counted.bytecodes import executed
from tests.support.clusters.plugin_worlds import (
    HostPort,
    PlainPod,
    PluginWorld,
    assert_equal_on_nodes,
    empty_world,
    existing,
    host_ports,
    rejected,
    worlds,
)

EVERY = "0.0.0.0"


def taken(wanted: HostPort, used: set[HostPort]) -> bool:
    """HostPortInfo.CheckConflict."""
    address, protocol, port = wanted
    if address == EVERY:
        return any(used_port == (protocol, port) for _, *rest in used for used_port in [tuple(rest)])
    return (address, protocol, port) in used or (EVERY, protocol, port) in used


@given(world=worlds(pod_ports=host_ports), wanted=host_ports)
def test_nodes_are_rejected_where_a_wanted_port_is_in_use(world: PluginWorld, wanted: frozenset[HostPort]) -> None:
    plugin = NodePorts(None, world.handle)
    pod = PlainPod("new", {}, wanted).to_pod()
    state = CycleState(pod)
    if not wanted:
        assert plugin.pre_filter(state, pod) == SKIP
        return
    assert plugin.pre_filter(state, pod) is None
    rejection = unschedulable("node(s) didn't have free ports for the requested pod ports")
    expected = [rejection if any(taken(port, node.ports) for port in wanted) else None for node in existing(world)]
    assert_equal_on_nodes(world, rejected(plugin, state, pod, world), expected)


@pytest.mark.parametrize(
    ("wanted", "used", "conflicts"),
    [
        ((EVERY, "TCP", 80), (EVERY, "TCP", 80), True),
        ((EVERY, "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), (EVERY, "TCP", 80), True),
        (("10.0.0.1", "TCP", 80), ("10.0.0.2", "TCP", 80), False),
        ((EVERY, "TCP", 80), (EVERY, "UDP", 80), False),
        ((EVERY, "TCP", 80), (EVERY, "TCP", 81), False),
    ],
)
def test_when_ports_conflict(wanted: HostPort, used: HostPort, conflicts: bool) -> None:
    assert conflict([wanted], [used]) == conflicts
    assert not conflict([wanted], [])


def test_pods_of_many_ports_are_not_compared_port_by_port() -> None:
    def comparing(ports: int) -> int:
        wanted, used = ([(EVERY, "TCP", first + number) for number in range(ports)] for first in (1, 30_001))
        return executed(lambda: conflict(wanted, used))

    assert comparing(2_000) < 3 * comparing(1_000)


def test_a_pod_that_wants_no_port_is_compared_with_none() -> None:
    used = [(EVERY, "TCP", port) for port in range(1, 1_001)]
    assert executed(lambda: conflict([], used)) < 100


def test_without_prefilter_there_is_no_filter() -> None:
    world = empty_world()
    pod = PlainPod("new", {}).to_pod()
    with pytest.raises(PluginError, match='reading "PreFilterNodePorts" from cycleState: not found'):
        NodePorts(None, world.handle).filter(CycleState(pod), pod, world.view)

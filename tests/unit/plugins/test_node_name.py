from hypothesis import given
from hypothesis import strategies as st

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.status import unresolvable
from extender_service.kube.types.core import Pod, PodSpec
from extender_service.plugins.node_name import NodeName
from tests.support.plugin_worlds import PluginWorld, assert_equal_on_nodes, existing, rejected, worlds


@given(world=worlds(), name=st.sampled_from(["", "n0", "n1", "elsewhere"]))
def test_a_pod_that_names_its_node_goes_nowhere_else(world: PluginWorld, name: str) -> None:
    pod = Pod(spec=PodSpec(node_name=name))
    rejection = unresolvable("node(s) didn't match the requested node name")
    expected = [None if name in ("", node.name) else rejection for node in existing(world)]
    assert_equal_on_nodes(world, rejected(NodeName(None, world.handle), CycleState(pod), pod, world), expected)

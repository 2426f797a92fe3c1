from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.defaulting import default_plugins
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.status import unresolvable
from extender_service.kube.types.core import Pod, PodSpec
from extender_service.plugins.node_name import NodeName
from tests.support.clusters.plugin_worlds import PluginWorld, assert_equal_on_nodes, existing, rejected, worlds
from tests.support.stub_plugins import make_handle


def test_from_1_37_on_it_runs_first_and_names_the_node_in_pre_filter() -> None:
    names = [each.name for each in default_plugins(rules_of(37))]
    assert names.index("NodeName") + 1 == names.index("NodeUnschedulable")
    plugin = NodeName(None, make_handle(Cluster(rules_of(37))))
    for node_name, expected in ("", None), ("a", {"a"}):
        pod = Pod(spec=PodSpec(node_name=node_name))
        assert plugin.pre_filter(CycleState(pod), pod) == expected


@given(world=worlds(), name=st.sampled_from(["", "n0", "n1", "elsewhere"]))
def test_a_pod_that_names_its_node_goes_nowhere_else(world: PluginWorld, name: str) -> None:
    pod = Pod(spec=PodSpec(node_name=name))
    rejection = unresolvable("node(s) didn't match the requested node name")
    expected = [None if name in ("", node.name) else rejection for node in existing(world)]
    assert_equal_on_nodes(world, rejected(NodeName(None, world.handle), CycleState(pod), pod, world), expected)

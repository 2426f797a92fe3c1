from hypothesis import given
from hypothesis import strategies as st

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.status import unresolvable
from extender_service.kube.types.core import Pod, PodSpec, Toleration
from extender_service.plugins.node_unschedulable import NodeUnschedulable
from tests.support.clusters.plugin_worlds import (
    PluginWorld,
    assert_equal_on_nodes,
    existing,
    rejected,
    tolerations,
    worlds,
)
from tests.support.stub_plugins import make_handle


@given(world=worlds(cordoned=st.booleans()), tolerated=tolerations)
def test_cordoned_nodes_take_only_pods_that_tolerate_it(world: PluginWorld, tolerated: tuple[Toleration, ...]) -> None:
    pod = Pod(spec=PodSpec(tolerations=tolerated))
    is_tolerated = any(
        toleration.key in ("", "node.kubernetes.io/unschedulable")
        and toleration.effect in ("", "NoSchedule")
        and (toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == ""))
        for toleration in tolerated
    )
    rejection = unresolvable("node(s) were unschedulable")
    expected = [rejection if node.unschedulable and not is_tolerated else None for node in existing(world)]
    plugin = NodeUnschedulable(None, world.handle)
    assert_equal_on_nodes(world, rejected(plugin, CycleState(pod), pod, world), expected)


def test_before_filter_it_has_nothing_to_say() -> None:
    plugin = NodeUnschedulable(None, make_handle(Cluster(rules_of(37))))
    assert plugin.pre_filter(CycleState(Pod()), Pod()) is None

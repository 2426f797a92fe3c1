from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.status import unresolvable
from extender_service.kube.types.core import ObjectMeta, Pod, PodSchedulingGate, PodSpec
from extender_service.plugins.scheduling_gates import SchedulingGates
from tests.support.clusters.volume_worlds import handle_of


def test_a_gated_pod_waits_and_says_for_what() -> None:
    plugin = SchedulingGates(None, handle_of(Cluster()))
    gates = (PodSchedulingGate("example.com/a"), PodSchedulingGate("b"))
    gated = Pod(ObjectMeta(name="p"), PodSpec(scheduling_gates=gates))
    assert plugin.pre_enqueue(gated) == unresolvable("waiting for scheduling gates: [example.com/a b]")
    assert plugin.pre_enqueue(Pod()) is None

import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import POD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.status import unresolvable
from extender_service.kube.types.core import ObjectMeta, Pod, PodSchedulingGate, PodSpec
from extender_service.plugins.scheduling_gates import SchedulingGates
from tests.support.clusters.volume_worlds import handle_of
from tests.support.objects import make_pod


def test_a_gated_pod_waits_and_says_for_what() -> None:
    plugin = SchedulingGates(None, handle_of(Cluster()))
    gates = (PodSchedulingGate("example.com/a"), PodSchedulingGate("b"))
    gated = Pod(ObjectMeta(name="p"), PodSpec(scheduling_gates=gates))
    assert plugin.pre_enqueue(gated) == unresolvable("waiting for scheduling gates: [example.com/a b]")
    assert plugin.pre_enqueue(Pod()) is None


@pytest.mark.parametrize("minor", [32, 36])
def test_before_1_37_the_uid_says_whose_gates_are_gone(minor: int) -> None:
    plugin = SchedulingGates(None, handle_of(Cluster(rules_of(minor))))
    [event] = plugin.retry_on
    assert event == ClusterEvent(POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    own, other = make_pod("own"), make_pod("other")
    hints = [plugin.queueing_hint(event, own, changed, changed) for changed in (own, other)]
    assert hints == [QueueingHint.QUEUE, QueueingHint.SKIP]

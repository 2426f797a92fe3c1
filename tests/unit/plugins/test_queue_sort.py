from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.interface import QueuedPod
from extender_service.kube.types.core import Pod, PodSpec
from extender_service.plugins.queue_sort import PrioritySort
from tests.support.clusters.volume_worlds import handle_of


def queued(priority: int, at: float) -> QueuedPod:
    return QueuedPod(Pod(spec=PodSpec(priority=priority)), at)


def test_importance_comes_before_waiting() -> None:
    plugin = PrioritySort(None, handle_of(Cluster()))
    assert plugin.less(queued(10, 5.0), queued(1, 1.0))
    assert not plugin.less(queued(1, 1.0), queued(10, 5.0))
    assert plugin.less(queued(1, 1.0), queued(1, 2.0))
    assert not plugin.less(queued(1, 1.0), queued(1, 1.0))

"""The queue's nominated pods, which the engine asks for: the queue knows them before the watch does."""

from collections.abc import Callable, Iterator

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.nominated_columns import Nominated, NominatedColumns
from extender_service.cluster.structures.change_log import ChangeLog
from extender_service.kube.types.core import Pod
from extender_service.queue.nominator import Nominator
from extender_service.queue.scheduling_queue import SchedulingQueue


def nominations(cluster: Cluster, queue: SchedulingQueue) -> Callable[[Pod], Nominated]:
    """Return the function that the engine asks for nominated pods: others of the pod's priority or more."""
    source = _Nominator(cluster, queue.nominator)
    return NominatedColumns(cluster.pods, cluster.nodes, cluster.placements, source).counting_for


class _Nominator:
    """The queue's nominator as a source of nominations; their pods are those that the watch shows as pending."""

    def __init__(self, cluster: Cluster, nominator: Nominator) -> None:
        self._nominator = nominator
        self.slot_of = cluster.pending_slot

    @property
    def changes(self) -> ChangeLog[str]:
        return self._nominator.changes

    def uids(self) -> Iterator[str]:
        return (uid for uid, _ in self._nominator.on_nodes())

    def node_of(self, uid: str) -> str:
        return self._nominator.node_of.get(uid, "")

    def scheduler_of(self, uid: str) -> str:  # noqa: ARG002 - one for all
        """Return no name: all pods of the queue count, whose profile is one of this program."""
        return ""

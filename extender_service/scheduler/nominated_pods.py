"""The queue's nominated pods, which the engine asks for: the queue knows them before the watch does.

Where a nomination ends, other pods may fit.
"""

from collections.abc import Callable, Iterator

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.nominated_columns import Nominated, NominatedColumns
from extender_service.cluster.structures.change_log import ChangeLog
from extender_service.config.rules import Rules
from extender_service.framework.events import reported_events
from extender_service.kube.types.core import Pod
from extender_service.queue.nominator import Nominator
from extender_service.queue.scheduling_queue import SchedulingQueue


def nominations(cluster: Cluster, queue: SchedulingQueue) -> Callable[[Pod], Nominated]:
    """Return the function that the engine asks for nominated pods: others of the pod's priority or more."""
    source = _Nominator(cluster, queue.nominator)
    return NominatedColumns(cluster.pods, cluster.nodes, cluster.placements, source).counting_for


def report_unnominated(queue: SchedulingQueue, rules: Rules, pod: Pod) -> None:
    """Report that the node for which a pod was nominated has room for others, as if the pod had been there."""
    if pod.status.nominated_node_name and rules.nominated_pods_free_room:
        event, priority = reported_events(rules).assigned_pod_delete, pod.spec.priority
        queue.move_all_to_active_or_backoff(event, pod, None, lambda other: other.spec.priority <= priority)


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

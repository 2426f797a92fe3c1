"""Signs that kube-scheduler has seen what our watches have not shown yet.

kube-scheduler's watches and ours are never at the same event. Where a call shows that ours are behind, a refusal may be
due to that alone.
"""

from collections.abc import Callable

from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.wire.requested_nodes import WholeNodes
from extender_service.framework.preemption.dry_run import awaits_victims
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.versions import version_number
from extender_service.scheduling.asked_nodes import AskedNodes


class WatchLag:
    """Finds such signs. `pods_version` returns the resource version of the last pod that the watch has shown."""

    def __init__(self, cluster: Cluster, pods_version: Callable[[], str] = lambda: "") -> None:
        self._cluster = cluster
        self._pods_version = pods_version

    def is_behind(self, pod: Pod, asked: AskedNodes) -> bool:
        """Return whether the call has a node or a version of the pod that the watches have not shown yet."""
        has_newer_nodes = isinstance(asked, WholeNodes) and asked.has_newer
        return bool(asked.found.unknown) or has_newer_nodes or self.is_newer(pod)

    def is_newer(self, pod: Pod) -> bool:
        """Return whether the caller's pod is newer than what the watch of pods has shown."""
        # All resource versions count the changes of one etcd.
        seen = version_number(self._pods_version())
        return 0 < seen < version_number(pod.metadata.resource_version)

    def has_ended(self, pod: Pod) -> bool:
        """Return whether the watch of pods has shown this version of the pod, and the pod's end since."""
        version = version_number(pod.metadata.resource_version)
        return 0 < version <= version_number(self._pods_version()) and self._cluster.pod(pod_uid(pod)) is None

    def awaits_room(self, pod: Pod, asked: AskedNodes) -> bool:
        """Return whether the pod may run on its nominated node, as far as the caller can see, and pods that were
        preempted for it are still there, as far as the watch has shown.

        kube-scheduler asks about that node when it has seen them end.
        """
        nominated = pod.status.nominated_node_name
        if not nominated:
            return False
        position = asked.view.position_of(nominated)
        return position >= 0 and bool(asked.in_question[position]) and self._is_room_coming(pod)

    def is_room_coming(self, pod: Pod) -> bool:
        """Return whether pods have been preempted for this pod on its nominated node, and are still there."""
        return bool(pod.status.nominated_node_name) and self._is_room_coming(pod)

    def _is_room_coming(self, pod: Pod) -> bool:
        # kube-scheduler nominates a node after it has deleted the victims, so a watch that shows the nomination has
        # shown these deletions.
        return self.is_newer(pod) or awaits_victims(self._cluster, pod)

"""Which pods have preemption running for them in the background, as PreEnqueue asks (framework/preemption/executor.go).

begin ──▶ some victims are to be evicted ──▶ one victim is left ──▶ end
          (the pod is kept out of the queue)  (until it goes)
"""

import msgspec

from extender_service.cluster.pods.pod_table import PodKey
from extender_service.cluster.state.cluster import Cluster


class RunningPreemption(msgspec.Struct, eq=False):
    """Preemption for one pod. `last_victim` is the only victim that is left, None before."""

    last_victim: PodKey | None = None


class RunningPreemptions:
    """The preemptions by the UID of the pod that they make room for."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._by_uid: dict[str, RunningPreemption] = {}

    def begin(self, uid: str) -> RunningPreemption:
        """Note that preemption for a pod begins, in place of an earlier one of the pod."""
        running = self._by_uid[uid] = RunningPreemption()
        return running

    def end(self, uid: str, running: RunningPreemption) -> None:
        """Note the end of a preemption; a later one of the pod goes on."""
        if self._by_uid.get(uid) is running:
            del self._by_uid[uid]

    def is_running(self, uid: str) -> bool:
        """Return whether a pod has to wait for its preemption.

        It has not once its last victim is gone or is being deleted: no later event would wake the pod.
        """
        running = self._by_uid.get(uid)
        if running is None:
            return False
        if running.last_victim is None:
            return True
        slot = self._cluster.slot_of(running.last_victim)
        return slot is not None and not self._cluster.pods.terminating[slot]

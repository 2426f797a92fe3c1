"""SchedulingGates: a pod with gates is not to be scheduled yet."""

from collections.abc import Sequence
from typing import ClassVar

from extender_service.framework.cluster_event import POD, TARGET_POD, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.handle import Handle
from extender_service.framework.interface import PreEnqueue
from extender_service.framework.status import Status, unresolvable
from extender_service.kube.types.core import Pod
from extender_service.plugins.shared.changed_pods import own_pod
from extender_service.plugins.shared.event_objects import only_new


class SchedulingGates(PreEnqueue):
    """Keeps a pod out of the queue until all its scheduling gates are removed."""

    name: ClassVar[str] = "SchedulingGates"
    # Without hints, the queue looks at the gates again with each update of the pod.
    retry_on: Sequence[ClusterEvent] = ()

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._compares = handle.rules.hints_compare  # the event then is that the gates are gone
        if handle.rules.hints_compare:
            eliminated = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
            self.retry_on = (ClusterEvent(own_pod(handle.rules), eliminated),)
        elif handle.rules.queueing_hints:
            self.retry_on = (ClusterEvent(POD, ActionType.UPDATE),)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject a pod that has gates; the reason names them."""
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gates)}]") if gates else None

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for the pod itself once its gates are gone."""
        if event.resource == TARGET_POD:
            return QueueingHint.QUEUE
        updated = only_new(Pod, old, new)
        is_free = self._compares or not updated.spec.scheduling_gates
        return QueueingHint.queue_if(is_free and updated.metadata.uid == pod.metadata.uid)

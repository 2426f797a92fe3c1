"""SchedulingGates: a pod with gates is not to be scheduled yet."""

from typing import ClassVar

from extender_service.framework.interface import PreEnqueue
from extender_service.framework.status import Status, unresolvable
from extender_service.kube.types.core import Pod


class SchedulingGates(PreEnqueue):
    """Keeps a pod out of the queue until all its scheduling gates are removed."""

    name: ClassVar[str] = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject a pod that has gates; the reason names them."""
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        return unresolvable(f"waiting for scheduling gates: [{' '.join(gates)}]") if gates else None

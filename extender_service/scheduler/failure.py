"""Why an attempt to schedule a pod failed, and what follows for its nomination (schedule_one.go)."""

from typing import Final

import msgspec

from extender_service.framework.guard import CycleError, RejectedError, RequestFailedError
from extender_service.kube.api_errors import ApiError, KubeError
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.scheduler.fit_error import FitError, rejected_on_one_node
from extender_service.scheduling.under_way import BindError

# Reasons of the condition PodScheduled.
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"

NO_NODES: Final = "no nodes available to schedule pods"


class Failure(msgspec.Struct, frozen=True):
    """A failed attempt.

    - `message`, `reason`: those of the condition PodScheduled
    - `fit_error`: has the plugins that rejected the pod; None if it is not known that any did
    - `nomination`: the pod's nominated node from now on; "" for none, None if it stays as it is
    """

    message: str
    reason: str
    fit_error: FitError | None = None
    nomination: str | None = ""

    @classmethod
    def unfit(cls, fit_error: FitError, nomination: str | None) -> "Failure":
        """Return the failure of a pod that fits on no node."""
        return cls(fit_error.message, UNSCHEDULABLE, fit_error, nomination)

    @classmethod
    def of(cls, error: CycleError | QuantityError | BindError | KubeError) -> "Failure":
        """Return the failure for an error of the scheduling or binding cycle."""
        cause = error.__cause__ if isinstance(error, BindError) else error
        if isinstance(cause, RejectedError):
            if not cause.waits:
                return cls(cause.status.message, UNSCHEDULABLE)
            return cls.unfit(rejected_on_one_node(cause.status), nomination="")
        if isinstance(cause, RequestFailedError):
            return cls(f"{cause.doing}: {words(cause.error)}", SCHEDULER_ERROR)
        if isinstance(cause, KubeError):
            doing = getattr(cause, "__notes__", [])  # which plugin ran
            return cls(": ".join([*doing, words(cause)]), SCHEDULER_ERROR)
        return cls(str(cause if isinstance(cause, CycleError) else error), SCHEDULER_ERROR)

    @property
    def is_rejection(self) -> bool:
        """Whether the pod was rejected, as opposed to an error."""
        return self.reason == UNSCHEDULABLE


def words(error: KubeError) -> str:
    """Return the text of an error as kube-scheduler reports it: the API server's own message, without its code."""
    return error.message if isinstance(error, ApiError) and error.message else str(error)


NO_NODES_AVAILABLE = Failure(NO_NODES, UNSCHEDULABLE)

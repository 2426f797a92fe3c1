"""Events about bindings whose callers were gone before the answer.

kube-scheduler itself reports what comes of a binding that it has asked for, in the same words (finishBinding and
handleSchedulingFailure in pkg/scheduler/schedule_one.go), but only if it is still there to hear of it.
"""

from collections.abc import Callable

from extender_service.kube.types.extender_api import ExtenderBindingArgs
from extender_service.kube.writing.event_recorder import ObjectReference, Occurrence

Record = Callable[[Occurrence], None]


def scheduled(args: ExtenderBindingArgs) -> Occurrence:
    """Return what is to be told of a pod that was bound."""
    note = f"Successfully assigned {args.pod_namespace}/{args.pod_name} to {args.node}"
    return Occurrence(_pod(args), "Normal", "Scheduled", "Binding", note)


def failed_scheduling(args: ExtenderBindingArgs, error: str) -> Occurrence:
    """Return what is to be told of a pod that was not bound, and why."""
    return Occurrence(_pod(args), "Warning", "FailedScheduling", "Scheduling", error)


def discard(_occurrence: Occurrence) -> None:
    """Record nothing, where there is no API server to tell."""


def _pod(args: ExtenderBindingArgs) -> ObjectReference:
    return ObjectReference("v1", "Pod", args.pod_namespace, args.pod_name, args.pod_uid)

"""Events about bindings whose callers hung up before the answer.

kube-scheduler itself reports the outcome of a binding that it asked for, in the same words (finishBinding and
handleSchedulingFailure in pkg/scheduler/schedule_one.go), but only if it still gets the answer.
"""

from collections.abc import Callable

from extender_service.kube.types.extender_api import ExtenderBindingArgs
from extender_service.kube.writing.event_recorder import ObjectReference, Occurrence

Record = Callable[[Occurrence], None]


def bound_pod(args: ExtenderBindingArgs) -> ObjectReference:
    """Return the reference to the pod that a caller asked to bind."""
    return ObjectReference("v1", "Pod", args.pod_namespace, args.pod_name, args.pod_uid)


def discard(_occurrence: Occurrence) -> None:
    """Record nothing, as there is no API server to write events to."""

"""Events about pods, with kube-scheduler's words (schedule_one.go, framework/preemption/preemption.go).

`controller` is the name of the profile that the pod has: each profile of kube-scheduler has a recorder of its own.
"""

from extender_service.kube.types.core import Pod
from extender_service.kube.writing.event_recorder import ObjectReference, Occurrence


def pod_reference(pod: Pod) -> ObjectReference:
    """Return the reference to a pod as it is now."""
    metadata = pod.metadata
    return ObjectReference("v1", "Pod", metadata.namespace, metadata.name, metadata.uid, metadata.resource_version)


def scheduled(pod: ObjectReference, node_name: str, *, controller: str = "") -> Occurrence:
    """Return the event of a pod that was bound."""
    note = f"Successfully assigned {pod.namespace}/{pod.name} to {node_name}"
    return Occurrence(pod, "Normal", "Scheduled", "Binding", note, controller=controller)


def failed_scheduling(pod: ObjectReference, message: str, *, controller: str = "") -> Occurrence:
    """Return the event of a pod that was not scheduled or bound; `message` says why."""
    return Occurrence(pod, "Warning", "FailedScheduling", "Scheduling", message, controller=controller)


def skipped(pod: ObjectReference, *, controller: str = "") -> Occurrence:
    """Return the event of a pod that was deleted before its attempt."""
    note = f"skip schedule deleting pod: {pod.namespace}/{pod.name}"
    return failed_scheduling(pod, note, controller=controller)


def preempted(
    victim: ObjectReference,
    preemptor: ObjectReference,
    node_name: str,
    *,
    is_deletion: bool,
    is_sent_back: bool,
    controller: str = "",
) -> Occurrence:
    """Return the event of a pod that made room: it was deleted, or sent back to the queue before it was bound, or, if
    neither, rejected in Permit."""
    note = f"Preempted by pod {preemptor.uid} on node {node_name}"
    if is_sent_back:
        note += " (in kube-scheduler memory)."
    return Occurrence(
        victim,
        "Normal",
        "Preempted",
        "Preempting",
        note,
        related=preemptor,
        controller=controller,
        is_deletion=is_deletion,
    )

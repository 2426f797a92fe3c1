"""The patch of a pod's status after a failed attempt: its condition, and its nominated node."""

from typing import Any, Final

from extender_service.kube.types.core import Pod
from extender_service.kube.types.pending_pods import PendingPodCondition, PendingPodMeta
from extender_service.kube.writing.timestamps import rfc3339
from extender_service.scheduler.failure import Failure
from extender_service.scheduling.pod_patches import Patch

_TYPE: Final = "PodScheduled"
_FALSE: Final = "False"
_NO_CONDITION: Final = PendingPodCondition()


def failure_patch(
    pod: Pod, failure: Failure, now_seconds: float, *, generation: int = 0, is_whole: bool = False
) -> Patch | None:
    """Return the patch for a failed attempt; None if the pod's status says all of it already (updatePod).

    `pod` is the pod as the watch shows it. With `is_whole`, the patch has all that the failure says, whatever the pod
    shows. `generation` is that of the pod that was attempted; the condition has none if it is 0. `now_seconds` is the
    time of the condition's transition if the pod does not show that yet.
    """
    status: dict[str, Any] = {}
    if is_whole or shown_condition(pod) != condition_of(failure):
        condition = _condition(pod, failure, now_seconds)
        if generation:
            condition["observedGeneration"] = generation
        status["conditions"] = [condition]
    if failure.nomination is not None and (is_whole or failure.nomination != pod.status.nominated_node_name):
        status["nominatedNodeName"] = failure.nomination or None
    return {"metadata": {"uid": pod.metadata.uid}, "status": status} if status else None


def generation_of(pod: Pod) -> int:
    """Return the generation of a pod that waits; 0 if it is not known."""
    metadata = pod.metadata
    return metadata.generation if isinstance(metadata, PendingPodMeta) else 0


def condition_of(failure: Failure) -> tuple[str, str, str]:
    """Return the status, the reason and the message of the condition that a pod gets after a failure."""
    return _FALSE, failure.reason, failure.message


def shown_condition(pod: Pod) -> tuple[str, str, str]:
    """Return the status, the reason and the message of the condition that a pod has; empty texts if it has none."""
    known = _known(pod)
    return known.status, known.reason, known.message


def _condition(pod: Pod, failure: Failure, now_seconds: float) -> dict[str, Any]:
    """Return the condition after a failure; its transition time is new if its status is."""
    known = _known(pod)
    changed_at = known.last_transition_time if known.status == _FALSE else ""
    return {
        "type": _TYPE,
        "status": _FALSE,
        "reason": failure.reason,
        "message": failure.message,
        "lastProbeTime": None,
        "lastTransitionTime": changed_at or rfc3339(now_seconds),
    }


def _known(pod: Pod) -> PendingPodCondition:
    """Return the condition that a pod has, an empty one if it has none."""
    known = next((known for known in pod.status.conditions if known.type == _TYPE), None)
    return known if isinstance(known, PendingPodCondition) else _NO_CONDITION

"""The patch of a pod's status after a failed attempt: its condition, and its nominated node."""

from typing import Any

from extender_service.kube.types.core import Pod
from extender_service.kube.types.pending_pods import PendingPodCondition, PendingPodMeta
from extender_service.kube.writing.timestamps import rfc3339
from extender_service.scheduler.failure import Failure
from extender_service.scheduling.pod_patches import Patch


def failure_patch(pod: Pod, failure: Failure, now_seconds: float, *, with_generation: bool = False) -> Patch | None:
    """Return the patch for a failed attempt; None if the pod's status says all of it already (updatePod).

    `pod` is the pod as the attempt knew it. `with_generation`, the condition has the pod's.
    """
    status: dict[str, Any] = {}
    condition = _changed(pod, "PodScheduled", "False", failure.reason, failure.message, now_seconds)
    if condition is not None:
        if with_generation and isinstance(pod.metadata, PendingPodMeta) and pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation
        status["conditions"] = [condition]
    if failure.nomination is not None and failure.nomination != pod.status.nominated_node_name:
        status["nominatedNodeName"] = failure.nomination or None
    return {"metadata": {"uid": pod.metadata.uid}, "status": status} if status else None


def _changed(
    pod: Pod, condition_type: str, status: str, reason: str, message: str, now_seconds: float
) -> dict[str, Any] | None:
    """Return a condition if it differs from the pod's; its transition time is new if its status is."""
    known = next((known for known in pod.status.conditions if known.type == condition_type), None)
    if not isinstance(known, PendingPodCondition):
        known = PendingPodCondition()
    if (known.status, known.reason, known.message) == (status, reason, message):
        return None
    changed_at = known.last_transition_time if known.status == status else ""
    return {
        "type": condition_type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": changed_at or rfc3339(now_seconds),
    }

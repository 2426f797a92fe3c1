"""Patches of a pod's status: the condition of a failed attempt, the nominated node, and the condition of a victim."""

from collections.abc import Mapping
from typing import Any

from extender_service.kube.types.core import Pod
from extender_service.kube.types.pending_pods import PendingPodCondition, PendingPodMeta
from extender_service.kube.writing.timestamps import rfc3339
from extender_service.scheduler.failure import Failure

Patch = Mapping[str, Any]


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


def nomination_patch(pod: Pod, node_name: str) -> Patch:
    """Return the patch that nominates a pod for a node; an empty name takes its nominated node back."""
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"nominatedNodeName": node_name or None}}


def victim_patch(uid: str, scheduler_name: str, now_seconds: float | None) -> Patch:
    """Return the patch that says why a pod is about to be deleted. Without a time, the condition keeps its own."""
    condition: dict[str, Any] = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{scheduler_name}: preempting to accommodate a higher priority pod",
        "lastProbeTime": None,
    }
    if now_seconds is not None:
        condition["lastTransitionTime"] = rfc3339(now_seconds)
    return {"metadata": {"uid": uid}, "status": {"conditions": [condition]}}


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

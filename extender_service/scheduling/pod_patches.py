"""Patches of a pod's status that preemption makes: the nominated node, and the condition of a victim."""

from collections.abc import Mapping
from typing import Any

from extender_service.kube.types.core import Pod
from extender_service.kube.writing.timestamps import rfc3339

Patch = Mapping[str, Any]


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

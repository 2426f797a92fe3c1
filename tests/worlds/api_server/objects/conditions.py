"""Conditions of a pod, set as kubernetes/pkg/api/pod's UpdatePodCondition sets them."""

from typing import Any

Object = dict[str, Any]


def set_condition(pod_status: Object, now: str, /, **condition: str) -> None:
    """Add a condition, or change the one of its type. The transition time stays if its status does."""
    conditions = pod_status.setdefault("conditions", [])
    wanted = {"lastTransitionTime": now, **condition}
    for index, present in enumerate(conditions):
        if present["type"] == condition["type"]:
            if present["status"] == condition["status"]:
                wanted["lastTransitionTime"] = present.get("lastTransitionTime", now)
            conditions[index] = wanted
            return
    conditions.append(wanted)

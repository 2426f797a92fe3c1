"""Actions of events as the bits that they are in kube-scheduler (ActionType): each release numbers them otherwise."""

from typing import Any, Final

from extender_service.framework.cluster_event import ActionType

_SINCE_1_31: Final = (
    ActionType.ADD,
    ActionType.DELETE,
    ActionType.UPDATE_NODE_ALLOCATABLE,
    ActionType.UPDATE_NODE_LABEL,
    ActionType.UPDATE_NODE_TAINT,
    ActionType.UPDATE_NODE_CONDITION,
    ActionType.UPDATE_NODE_ANNOTATION,
)
_SINCE_1_35: Final = (*_SINCE_1_31, ActionType.UPDATE_NODE_DECLARED_FEATURE)
_OF_PODS: Final = (ActionType.UPDATE_POD_LABEL, ActionType.UPDATE_POD_SCALE_DOWN)
_OF_PODS_SINCE_1_32: Final = (
    ActionType.UPDATE_POD_TOLERATION,
    ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
    ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
)
_1_32: Final = (*_SINCE_1_31, *_OF_PODS, *_OF_PODS_SINCE_1_32, ActionType.UPDATE_POD_OTHER)
_1_35: Final = (*_SINCE_1_35, *_OF_PODS, *_OF_PODS_SINCE_1_32)

KNOWN_ACTIONS: Final = {
    31: (*_SINCE_1_31, *_OF_PODS, ActionType.UPDATE_POD_OTHER),
    32: _1_32,
    33: _1_32,
    34: (*_SINCE_1_31, *_OF_PODS, *_OF_PODS_SINCE_1_32),
    35: _1_35,
    36: _1_35,
    37: (
        *_SINCE_1_35,
        ActionType(0),  # UpdateNodePreemptionPolicy, of an alpha feature
        *_OF_PODS,
        ActionType.UPDATE_POD_SCALE_UP,
        *_OF_PODS_SINCE_1_32,
    ),
}


def bits(action: ActionType, minor: int) -> int:
    """Return an action as the release 1.`minor` of kube-scheduler numbers it."""
    has_every_update = ActionType.UPDATE in action
    return sum(
        1 << bit for bit, known in enumerate(KNOWN_ACTIONS[minor]) if known & action or (has_every_update and not known)
    )


def with_bits(value: Any, minor: int) -> Any:
    """Return JSON in which each `action` has the bits of a release."""
    if isinstance(value, dict):
        return {
            key: bits(ActionType(item), minor) if key == "action" else with_bits(item, minor)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_bits(item, minor) for item in value]
    return value

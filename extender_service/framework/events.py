"""The changes that kube-scheduler reports to its queue, and which of them an update is (framework/events.go)."""

from collections.abc import Callable
from typing import Final

from extender_service.cluster.amounts.requests import request_shape, total_requests
from extender_service.framework.cluster_event import NODE, POD, WILD_CARD, ActionType, ClusterEvent
from extender_service.kube.parsing.quantities import milli_value, parse_quantity
from extender_service.kube.types.core import Node, Pod, ResourceList

ASSIGNED_POD_ADD: Final = ClusterEvent(POD, ActionType.ADD, "AssignedPodAdd")
ASSIGNED_POD_UPDATE: Final = ClusterEvent(POD, ActionType.UPDATE, "AssignedPodUpdate")
ASSIGNED_POD_DELETE: Final = ClusterEvent(POD, ActionType.DELETE, "AssignedPodDelete")
UNSCHEDULED_POD_UPDATE: Final = ClusterEvent(POD, ActionType.UPDATE, "UnschedulablePodUpdate")
POD_LABEL_CHANGE: Final = ClusterEvent(POD, ActionType.UPDATE_POD_LABEL, "PodLabelChange")
POD_REQUEST_SCALED_DOWN: Final = ClusterEvent(POD, ActionType.UPDATE_POD_SCALE_DOWN, "PodRequestScaledDown")
POD_OTHER_UPDATE: Final = ClusterEvent(POD, ActionType.UPDATE_POD_OTHER, "AssignedPodUpdate")
NODE_ADD: Final = ClusterEvent(NODE, ActionType.ADD, "NodeAdd")
NODE_DELETE: Final = ClusterEvent(NODE, ActionType.DELETE, "NodeDelete")
NODE_SPEC_UNSCHEDULABLE_CHANGE: Final = ClusterEvent(NODE, ActionType.UPDATE_NODE_TAINT, "NodeSpecUnschedulableChange")
NODE_ALLOCATABLE_CHANGE: Final = ClusterEvent(NODE, ActionType.UPDATE_NODE_ALLOCATABLE, "NodeAllocatableChange")
NODE_LABEL_CHANGE: Final = ClusterEvent(NODE, ActionType.UPDATE_NODE_LABEL, "NodeLabelChange")
NODE_TAINT_CHANGE: Final = ClusterEvent(NODE, ActionType.UPDATE_NODE_TAINT, "NodeTaintChange")
NODE_CONDITION_CHANGE: Final = ClusterEvent(NODE, ActionType.UPDATE_NODE_CONDITION, "NodeConditionChange")
NODE_ANNOTATION_CHANGE: Final = ClusterEvent(NODE, ActionType.UPDATE_NODE_ANNOTATION, "NodeAnnotationChange")
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(WILD_CARD, ActionType.ALL, "UnschedulableTimeout")


def node_changes(old: Node, new: Node) -> list[ClusterEvent]:
    """Return what an update of a node means to pods that wait; nothing, if it does not concern them.

    Raises QuantityError for a malformed quantity.
    """
    return [event for event, happened in _NODE_CHANGES if happened(old, new)]


def pod_changes(old: Pod, new: Pod) -> list[ClusterEvent]:
    """Return what an update of a pod means to pods that wait, at least POD_OTHER_UPDATE.

    Raises QuantityError for a malformed quantity.
    """
    return [event for event, happened in _POD_CHANGES if happened(old, new)] or [POD_OTHER_UPDATE]


def _is_uncordoned(old: Node, new: Node) -> bool:
    return old.spec.unschedulable and not new.spec.unschedulable


def _other_allocatable(old: Node, new: Node) -> bool:
    before, after = old.status.allocatable, new.status.allocatable
    return before != after and _amounts(before) != _amounts(after)


def _amounts(resources: ResourceList) -> dict[str, int]:
    return {name: parse_quantity(raw) for name, raw in resources.items()}


def _other_labels(old: Node | Pod, new: Node | Pod) -> bool:
    return old.metadata.labels != new.metadata.labels


def _other_taints(old: Node, new: Node) -> bool:
    return old.spec.taints != new.spec.taints


def _other_conditions(old: Node, new: Node) -> bool:
    before, after = old.status.conditions, new.status.conditions
    return before != after and _statuses(old) != _statuses(new)


def _statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _other_annotations(old: Node, new: Node) -> bool:
    return old.metadata.annotations != new.metadata.annotations


def _is_scaled_down(old: Pod, new: Pod) -> bool:
    """Whether the pod requests less of something than before, or nothing of it any more."""
    before, after = (total_requests(request_shape(pod.spec)) for pod in (old, new))
    return any(name not in after or milli_value(nanos) > milli_value(after[name]) for name, nanos in before.items())


_NODE_CHANGES: Final[tuple[tuple[ClusterEvent, Callable[[Node, Node], bool]], ...]] = (
    (NODE_SPEC_UNSCHEDULABLE_CHANGE, _is_uncordoned),
    (NODE_ALLOCATABLE_CHANGE, _other_allocatable),
    (NODE_LABEL_CHANGE, _other_labels),
    (NODE_TAINT_CHANGE, _other_taints),
    (NODE_CONDITION_CHANGE, _other_conditions),
    (NODE_ANNOTATION_CHANGE, _other_annotations),
)
_POD_CHANGES: Final[tuple[tuple[ClusterEvent, Callable[[Pod, Pod], bool]], ...]] = (
    (POD_LABEL_CHANGE, _other_labels),
    (POD_REQUEST_SCALED_DOWN, _is_scaled_down),
)

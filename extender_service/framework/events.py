"""The changes that kube-scheduler reports to its queue, and which of them an update is (framework/events.go)."""

from collections.abc import Callable
from typing import Final

from extender_service.cluster.amounts.footprint import reported_resources, reported_shape
from extender_service.cluster.amounts.requests import (
    OLDEST_REQUEST_RULES,
    RequestRules,
    request_rules,
    total_requests,
)
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    POD,
    TARGET_POD,
    UNSCHEDULABLE_POD,
    UNSCHEDULED_POD,
    WILD_CARD,
    ActionType,
    ClusterEvent,
)
from extender_service.kube.parsing.quantities import milli_value, parse_quantity
from extender_service.kube.types.core import Node, Pod, ResourceList, condition_statuses
from extender_service.kube.types.pending_pods import generated_claims

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


# A pod in flight is to be tried again when it comes back; only that pod is meant.
FORCE_ACTIVATE: Final = ClusterEvent(WILD_CARD, ActionType.ALL, "ForceActivate")


class ReportedEvents:
    """The events of a release of kube-scheduler that are about pods, and what an update of a node or pod is."""

    assigned_pod_add = ASSIGNED_POD_ADD
    assigned_pod_update = ASSIGNED_POD_UPDATE
    assigned_pod_delete = ASSIGNED_POD_DELETE
    unscheduled_pod_update = UNSCHEDULED_POD_UPDATE
    # Labels of what is no event to v1.31.1's queue.
    unscheduled_pod_add = "UnschedulablePodAdd"
    unscheduled_pod_delete = "UnschedulablePodDelete"

    def node_changes(self, old: Node, new: Node) -> list[ClusterEvent]:
        """Return what an update of a node means to pods that wait; nothing, if it does not concern them.

        Raises QuantityError for a malformed quantity.
        """
        return [event for event, happened in _NODE_CHANGES if happened(old, new)]

    def pod_changes(self, old: Pod, new: Pod) -> list[ClusterEvent]:
        """Return what an update of a pod means to pods that wait, at least POD_OTHER_UPDATE.

        Raises QuantityError for a malformed quantity.
        """
        return [event for event, happened in _POD_CHANGES if happened(old, new)] or [POD_OTHER_UPDATE]

    def own_changes(self, old: Pod, new: Pod) -> list[ClusterEvent]:
        """Return what an update of a pod that waits means to this pod."""
        return self.pod_changes(old, new)

    def object_change(self, resource: str, action: ActionType, *, called: str) -> ClusterEvent:
        """Return the event of an object that is no node or pod; `called` is the resource in v1.31.1's labels."""
        return ClusterEvent(resource, action, event_named(called, action).label)


class NamedEvents(ReportedEvents):
    """The events from v1.32 on, where a label is the resource and the action."""

    def __init__(self, rules: Rules) -> None:
        waiting, self._own = (UNSCHEDULED_POD, TARGET_POD) if rules.own_changes_named else (UNSCHEDULABLE_POD,) * 2
        self.assigned_pod_add = event_named(ASSIGNED_POD, ActionType.ADD)
        self.assigned_pod_update = event_named(ASSIGNED_POD, ActionType.UPDATE)
        self.assigned_pod_delete = event_named(ASSIGNED_POD, ActionType.DELETE)
        self.unscheduled_pod_update = event_named(waiting, ActionType.UPDATE)
        self.unscheduled_pod_add = event_named(waiting, ActionType.ADD).label
        self.unscheduled_pod_delete = event_named(waiting, ActionType.DELETE).label
        self._waiting = waiting
        self._has_plural = not rules.toleration_in_singular
        self._any_update = ActionType.UPDATE if rules.other_updates_for_all else ActionType.UPDATE_POD_OTHER
        self._requests = request_rules(rules)
        self._reports_scale_up = rules.scale_up_reported
        self._reports_claims = rules.dynamic_resources
        self._reports_features = rules.declared_features

    def node_changes(self, old: Node, new: Node) -> list[ClusterEvent]:
        """Return what an update of a node means to pods that wait, in the order of NodeSchedulingPropertiesChange."""
        found = [event.action for event in super().node_changes(old, new)]
        if self._reports_features and old.status.declared_features != new.status.declared_features:
            found.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
        return [event_named(NODE, action) for action in found]

    def pod_changes(self, old: Pod, new: Pod) -> list[ClusterEvent]:
        """Return what an update of a pod means to pods that wait, at least that it is some update."""
        return self._changes(ASSIGNED_POD if new.spec.node_name else self._waiting, old, new)

    def own_changes(self, old: Pod, new: Pod) -> list[ClusterEvent]:
        """Return what an update of a pod that waits means to this pod."""
        return self._changes(self._own, old, new)

    def object_change(self, resource: str, action: ActionType, *, called: str) -> ClusterEvent:
        """Return the event of an object that is no node or pod."""
        del called
        return event_named(resource, action)

    def _changes(self, resource: str, old: Pod, new: Pod) -> list[ClusterEvent]:
        found = []
        if _other_labels(old, new):
            found.append(ActionType.UPDATE_POD_LABEL)
        if _is_scaled_down(old, new, self._requests):
            found.append(ActionType.UPDATE_POD_SCALE_DOWN)
        if self._reports_scale_up and _is_scaled_down(new, old, self._requests):
            found.append(ActionType.UPDATE_POD_SCALE_UP)
        if old.spec.scheduling_gates and not new.spec.scheduling_gates:
            found.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        if len(old.spec.tolerations) != len(new.spec.tolerations):  # the API server lets them only be added
            found.append(ActionType.UPDATE_POD_TOLERATION)
        if self._reports_claims and generated_claims(old.status) != generated_claims(new.status):
            found.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
        return [self._event(resource, action) for action in found or [self._any_update]]

    def _event(self, resource: str, action: ActionType) -> ClusterEvent:
        event = event_named(resource, action)
        if self._has_plural and action is ActionType.UPDATE_POD_TOLERATION:
            return event._replace(label=f"{event.label}s")
        return event


def reported_events(rules: Rules) -> ReportedEvents:
    """Return the events of a release."""
    return NamedEvents(rules) if rules.events_named_by_action else ReportedEvents()


def event_named(resource: str, action: ActionType) -> ClusterEvent:
    """Return an event with the label that it has from v1.32 on: the resource and the action (ClusterEvent.Label)."""
    is_general = action in (ActionType.UPDATE, ActionType.UPDATE_POD_OTHER)
    assert action.name is not None
    name = "Update" if is_general else "".join(part.capitalize() for part in action.name.split("_"))
    return ClusterEvent(resource, action, resource + name)


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
    return before != after and condition_statuses(old) != condition_statuses(new)


def _other_annotations(old: Node, new: Node) -> bool:
    return old.metadata.annotations != new.metadata.annotations


def _is_scaled_down(old: Pod, new: Pod, rules: RequestRules = OLDEST_REQUEST_RULES) -> bool:
    """Whether the pod takes less of something than before, or nothing of it any more."""
    if old.spec == new.spec and reported_resources(old) == reported_resources(new):
        return False
    before, after = (total_requests(reported_shape(pod.spec, pod.status, rules)) for pod in (old, new))
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

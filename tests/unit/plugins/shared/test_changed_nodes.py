from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent
from extender_service.plugins.shared.changed_nodes import node_changes

WITH_HINTS, WITHOUT_HINTS = (rules_of(33, {"SchedulerQueueingHints": are_on}) for are_on in (True, False))


def test_new_nodes_wake_a_pod_and_so_do_the_updates_that_help() -> None:
    assert node_changes(WITH_HINTS) == ClusterEvent(NODE, ActionType.ADD)
    more_room = ActionType.UPDATE_NODE_ALLOCATABLE
    assert node_changes(WITH_HINTS, more_room) == ClusterEvent(NODE, ActionType.ADD | more_room)


def test_without_hints_other_labels_and_taints_of_a_node_wake_a_pod_too() -> None:
    shown = ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    assert node_changes(WITHOUT_HINTS) == ClusterEvent(NODE, shown)
    more_room = ActionType.UPDATE_NODE_ALLOCATABLE
    assert node_changes(WITHOUT_HINTS, more_room) == ClusterEvent(NODE, shown | more_room)

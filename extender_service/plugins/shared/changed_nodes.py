"""Which changes of nodes wake a pod that a plugin rejected, from v1.32 on."""

from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent

_NONE = ActionType(0)


def node_changes(rules: Rules, updates: ActionType = _NONE) -> ClusterEvent:
    """Return the event to register for new nodes, and for the updates of nodes that change the plugin's verdict.

    Without hints, a new node that does not take the pod is hidden from the queue, and its labels and taints may be why.
    So a change of these wakes the pod as well.
    """
    if not rules.hints_replace_checks:
        updates |= ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
    return ClusterEvent(NODE, ActionType.ADD | updates)

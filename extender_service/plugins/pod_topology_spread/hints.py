"""Whether a change helps a pod that its spread keeps off nodes (isSchedulableAfter… in the reference)."""

from collections.abc import Callable

from extender_service.config.rules import Rules
from extender_service.framework.plugin_errors import PluginError
from extender_service.kube.types.core import Node, Pod
from extender_service.plugins.pod_topology_spread.constraints import Constraints
from extender_service.plugins.shared.changed_pods import counts_near
from extender_service.plugins.shared.event_objects import old_and_new, only_new, only_old

# Returns the constraints of a pod that say DoNotSchedule. Raises PluginError where one is malformed.
ConstraintsOf = Callable[[Pod], Constraints]


def spread_helped_by_pod(pod: Pod, constraints_of: ConstraintsOf, old: object, new: object, rules: Rules) -> bool:
    """Return whether a constraint counts a pod that came or went, or counts it differently since its labels changed."""
    before, after = old_and_new(Pod, old, new)
    if not (_may_count(before, pod, rules) and _may_count(after, pod, rules)):
        return False
    for constraint in constraints_of(pod).each:
        counted = before is not None and constraint.selector.matches(before.metadata.labels)
        counts = after is not None and constraint.selector.matches(after.metadata.labels)
        if counted != counts:
            return True
    return False


def spread_helped_by_itself(pod: Pod, constraints_of: ConstraintsOf, old: object, new: object) -> bool:
    """Return whether the pod tolerates other taints, and a constraint minds taints, or is counted differently."""
    before, after = only_old(Pod, old, new), only_new(Pod, old, new)
    constraints = constraints_of(pod).each
    if before.spec.tolerations != after.spec.tolerations and any(each.honors_taints for each in constraints):
        return True
    was, now = before.metadata.labels, after.metadata.labels
    return any(each.selector.matches(was) != each.selector.matches(now) for each in constraints)


def spread_changed_by_node(pod: Pod, constraints_of: ConstraintsOf, old: object, new: object) -> bool:
    """Return whether a node with the topology keys came or went, or is in another topology, or has other taints."""
    before, after = old_and_new(Node, old, new)
    keys = constraints_of(pod).topology_keys
    had, has = (node is not None and all(key in node.metadata.labels for key in keys) for node in (before, after))
    if before is None or after is None:
        return had or has
    if had != has:
        return True
    was, now = before.metadata.labels, after.metadata.labels
    return has and (any(was[key] != now[key] for key in keys) or before.spec.taints != after.spec.taints)


def _may_count(other: Pod | None, pod: Pod, rules: Rules) -> bool:
    if other is None:
        return True
    # Where own changes have no name, the end of the pod's own nomination counts, too.
    if rules.hints_compare and not rules.own_changes_named and other.metadata.uid == pod.metadata.uid:
        return True
    return counts_near(other, rules) and other.metadata.namespace == pod.metadata.namespace


def spread_helped_by_node(pod: Pod, constraints_of: ConstraintsOf, old: object, new: object) -> bool:
    """Return whether a node has the topology keys of all constraints, or had them when it was deleted."""
    before, after = old_and_new(Node, old, new)
    node = before if after is None else after
    if node is None:
        raise PluginError("expected a Node, but got none")
    return all(key in node.metadata.labels for key in constraints_of(pod).topology_keys)

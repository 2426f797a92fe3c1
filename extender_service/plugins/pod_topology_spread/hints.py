"""Whether a change helps a pod that its spread keeps off nodes (isSchedulableAfter… in the reference)."""

from collections.abc import Callable

from extender_service.framework.plugin_errors import PluginError
from extender_service.kube.types.core import Node, Pod
from extender_service.plugins.pod_topology_spread.constraints import Constraints
from extender_service.plugins.shared.event_objects import old_and_new

# Returns the constraints of a pod that say DoNotSchedule. Raises PluginError where one is malformed.
ConstraintsOf = Callable[[Pod], Constraints]


def spread_helped_by_pod(pod: Pod, constraints_of: ConstraintsOf, old: object, new: object) -> bool:
    """Return whether a constraint counts a pod that came or went, or counts it differently since its labels changed."""
    before, after = old_and_new(Pod, old, new)
    if not (_may_count(before, pod) and _may_count(after, pod)):
        return False
    for constraint in constraints_of(pod).each:
        counted = before is not None and constraint.selector.matches(before.metadata.labels)
        counts = after is not None and constraint.selector.matches(after.metadata.labels)
        if counted != counts:
            return True
    return False


def _may_count(other: Pod | None, pod: Pod) -> bool:
    return other is None or (bool(other.spec.node_name) and other.metadata.namespace == pod.metadata.namespace)


def spread_helped_by_node(pod: Pod, constraints_of: ConstraintsOf, old: object, new: object) -> bool:
    """Return whether a node has the topology keys of all constraints, or had them when it was deleted."""
    before, after = old_and_new(Node, old, new)
    node = before if after is None else after
    if node is None:
        raise PluginError("expected a Node, but got none")
    return all(key in node.metadata.labels for key in constraints_of(pod).topology_keys)

"""Which pods an event is about: before v1.37, all events of pods are of one resource, and a UID tells them apart."""

from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import ASSIGNED_POD, POD, TARGET_POD, ClusterEvent
from extender_service.kube.types.core import Pod


def pods_on_nodes(rules: Rules) -> str:
    """Return the resource to register for changes of pods on nodes."""
    return ASSIGNED_POD if rules.own_changes_named else POD


def own_pod(rules: Rules) -> str:
    """Return the resource to register for changes of the pod itself that was rejected."""
    return TARGET_POD if rules.own_changes_named else POD


def is_of_pod(event: ClusterEvent) -> bool:
    """Return whether an event is about a pod, on a node or not."""
    return event.resource in (POD, ASSIGNED_POD, TARGET_POD)


def is_own(event: ClusterEvent, pod: Pod, old: object, new: object) -> bool:
    """Return whether an event is an update of the pod itself."""
    if event.resource == POD:
        return isinstance(old, Pod) and isinstance(new, Pod) and new.metadata.uid == pod.metadata.uid
    return event.resource == TARGET_POD


def counts_near(pod: Pod, rules: Rules) -> bool:
    """Return whether affinity and spread count a pod: one on a node, and from v1.36 on, one that is nominated."""
    return bool(pod.spec.node_name or (rules.nominated_pods_count_near and pod.status.nominated_node_name))


def took_room(pod: Pod, rules: Rules) -> bool:
    """Return whether a pod took room on a node: it was there, or from v1.33 on, was nominated for it."""
    return bool(pod.spec.node_name or (rules.nominated_pods_free_room and pod.status.nominated_node_name))

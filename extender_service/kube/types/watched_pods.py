"""Pods for the watch of all pods, reduced to what affects other pods: what they use of a node, labels and affinity.

Most pods are only ever counted on their node. Skipping the other fields saves much of the time to decode a list of
pods. The fields for placing a pod itself, such as its tolerations, are decoded from the request (`core.Pod`). Fields
of both types have the same names and meanings. Values that many pods share, such as labels, stay raw JSON: the cluster
uses the bytes as a cache key, and decodes equal ones once.
"""

from msgspec import Raw

from extender_service.kube.types.core import (
    Int32,
    Metadata,
    Object,
    Pod,
    PodAffinity,
    PodCondition,
    PodSchedulingGate,
    PodSchedulingGroup,
    ResourceList,
    Volume,
)

_NOTHING = Raw(b"null")


class WatchedMeta(Metadata):
    """Part of metav1.ObjectMeta."""

    labels: Raw = _NOTHING
    deletion_timestamp: str = ""


class WatchedAffinity(Object):
    """Part of v1.Affinity."""

    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class WatchedContainer(Object):
    """Part of v1.Container."""

    name: str = ""
    ports: Raw = _NOTHING
    resources: Raw = _NOTHING
    restart_policy: str = ""


class WatchedPodSpec(Object):
    """Part of v1.PodSpec."""

    node_name: str = ""
    scheduler_name: str = ""
    affinity: WatchedAffinity | None = None
    containers: tuple[WatchedContainer, ...] = ()
    init_containers: tuple[WatchedContainer, ...] = ()
    overhead: ResourceList = {}
    resources: Raw = _NOTHING
    priority: Int32 = 0
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    volumes: tuple[Volume, ...] = ()


class WatchedContainerStatus(Object):
    """Part of v1.ContainerStatus."""

    name: str = ""
    allocated_resources: Raw = _NOTHING
    resources: Raw = _NOTHING


class WatchedPodStatus(Object):
    """Part of v1.PodStatus."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[WatchedContainerStatus, ...] = ()
    init_container_statuses: tuple[WatchedContainerStatus, ...] = ()
    allocated_resources: Raw = _NOTHING
    resources: Raw = _NOTHING


class WatchedPod(Object):
    """Part of v1.Pod."""

    metadata: WatchedMeta = WatchedMeta()
    spec: WatchedPodSpec = WatchedPodSpec()
    status: WatchedPodStatus = WatchedPodStatus()


AnyPod = Pod | WatchedPod
"""A pod from which the code reads only the fields that WatchedPod also has."""

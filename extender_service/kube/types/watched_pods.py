"""Pods as a watch of all pods needs them: what they take of nodes, and what they are to other pods.

Of most pods nobody asks more than that, and to skip the rest saves a good part of the time that a list of them takes to
decode. What a pod wants for itself is read where it is judged, from `objects.Pod`; names and meanings are the same.
What many pods have in common stays JSON, by which it is looked up.
"""

from msgspec import Raw

from extender_service.kube.types.core import (
    Int32,
    Metadata,
    Object,
    Pod,
    PodAffinity,
    PodSchedulingGate,
    PodStatus,
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
    priority: Int32 = 0
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    volumes: tuple[Volume, ...] = ()


class WatchedPod(Object):
    """Part of v1.Pod."""

    metadata: WatchedMeta = WatchedMeta()
    spec: WatchedPodSpec = WatchedPodSpec()
    status: PodStatus = PodStatus()


AnyPod = Pod | WatchedPod
"""A pod of which no more is asked than of one that is watched."""

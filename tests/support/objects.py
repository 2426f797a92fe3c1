"""Short ways to write nodes and pods in tests."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.resources.api_resources import WATCHED_PODS
from extender_service.kube.types.core import (
    Container,
    ContainerPort,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSchedulingGroup,
    PodSpec,
    PodStatus,
    ResourceList,
    ResourceRequirements,
    Taint,
)
from extender_service.kube.types.watched_pods import WatchedPod


def make_node(
    name: str,
    allocatable: ResourceList | None = None,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    unschedulable: bool = False,
    resource_version: str = "",
) -> Node:
    """A node that offers the resources given, by name."""
    return Node(
        ObjectMeta(name=name, labels=dict(labels or {}), resource_version=resource_version),
        NodeSpec(unschedulable=unschedulable, taints=tuple(taints)),
        NodeStatus({"cpu": "4", "memory": "8Gi", "pods": "110"} if allocatable is None else allocatable),
    )


def make_container(
    requests: ResourceList | None = None, *, ports: Sequence[int | ContainerPort] = (), restart_policy: str = ""
) -> Container:
    """A container; ports given as numbers are host ports on every address."""
    return Container(
        ports=tuple(ContainerPort(host_port=port) if isinstance(port, int) else port for port in ports),
        resources=ResourceRequirements(requests or {}),
        restart_policy=restart_policy,
    )


def make_pod(
    name: str,
    node: str = "",
    *,
    namespace: str = "default",
    uid: str | None = None,
    phase: str = "",
    requests: ResourceList | None = None,
    ports: Sequence[int] = (),
    nominated: str = "",
) -> Pod:
    """A pod of one container; its UID is made from its name unless given."""
    return Pod(
        ObjectMeta(name=name, namespace=namespace, uid=f"uid-of-{name}" if uid is None else uid),
        PodSpec(node_name=node, containers=(make_container(requests, ports=ports),)),
        PodStatus(phase=phase, nominated_node_name=nominated),
    )


def preempted(pod: Pod) -> Pod:
    """The same pod, which kube-scheduler has deleted to make room, and which has not ended yet."""
    condition = PodCondition("DisruptionTarget", "True", "PreemptionByScheduler")
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z"),
        status=msgspec.structs.replace(pod.status, conditions=(condition,)),
    )


def in_group(pod: Pod) -> Pod:
    """The same pod, in a group of pods."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_group=PodSchedulingGroup()))


class Undo:
    """A reservation of which a test sees that it was given back, and how often PostBind ran."""

    has_reached_bind = False
    post_bind_has_run = False
    bind_count = 0

    def __init__(self, undo: Callable[[], None]) -> None:
        self.unreserve = undo
        self.post_bind_runs = 0

    def permit(self) -> None:
        raise AssertionError("no pod is bound here")

    def pre_flight(self) -> bool:
        return False

    def preempt_in_pre_bind(self, why: str) -> bool:
        return False

    async def run_to_bind(self, may_bind: Callable[[], None]) -> None:
        raise AssertionError("no test binds what is only reserved")

    def run_post_bind(self) -> None:
        self.post_bind_runs += 1


def watched(pod: Pod) -> WatchedPod:
    """What a watch shows of a pod."""
    return WATCHED_PODS.decoder.decode(msgspec.json.encode(pod))


def cluster_of(nodes: Iterable[Node] = (), pods: Iterable[Pod] = ()) -> Cluster:
    cluster = Cluster()
    for node in nodes:
        cluster.apply_node(node)
    for pod in pods:
        cluster.apply_pod(pod)
    return cluster

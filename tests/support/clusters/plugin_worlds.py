"""Random clusters for plugins, each told twice: as the view that a plugin gets, and as plain objects node by node."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter
from extender_service.framework.status import Status
from extender_service.kube.types.core import (
    Container,
    ContainerPort,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
    Taint,
    Toleration,
)

CPU, MEMORY, DISK = "cpu", "memory", "ephemeral-storage"
GPU, FPGA = "example.com/gpu", "other.org/fpga"

Amounts = dict[str, int]
HostPort = tuple[str, str, int]


@dataclass
class PlainPod:
    """A pod of one container: what it requests in whole units (milli-CPU for cpu), and its host ports."""

    name: str
    requests: Amounts
    ports: frozenset[HostPort] = frozenset()

    def to_pod(self, node_name: str = "") -> Pod:
        container = Container(
            ports=tuple(
                ContainerPort(host_port=port, host_ip=ip, protocol=protocol) for ip, protocol, port in self.ports
            ),
            resources=ResourceRequirements(written(self.requests)),
        )
        metadata = ObjectMeta(name=self.name, namespace="default", uid=self.name)
        return Pod(metadata, PodSpec(node_name=node_name, containers=(container,)))


@dataclass
class PlainNode:
    """A node and the pods that count on it."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = field(default_factory=dict)
    pods: list[PlainPod] = field(default_factory=list)
    ports: set[HostPort] = field(default_factory=set)

    def requested(self, resource: str, default: int = 0) -> int:
        """The sum over the pods; a pod that says nothing about the resource counts with the default."""
        return sum(pod.requests.get(resource, default) for pod in self.pods)

    def to_node(self) -> Node:
        return Node(
            ObjectMeta(name=self.name, labels=dict(self.labels)),
            NodeSpec(unschedulable=self.unschedulable, taints=self.taints),
            NodeStatus(written(self.allocatable)),
        )


@dataclass
class PluginWorld:
    """A view, and the same nodes in the same order; None is a row of the table that is no node."""

    view: NodeView
    nodes: list[PlainNode | None]
    handle: Handle

    def __repr__(self) -> str:
        return f"World({self.nodes})"


def written(amounts: Amounts) -> dict[str, str | int | float]:
    return {name: f"{amount}m" if name == CPU else str(amount) for name, amount in amounts.items()}


labels = st.dictionaries(
    st.sampled_from(["zone", "disk", "gen"]), st.sampled_from(["", "a", "b", "5", "-7", "x10", "9999999999999999999"])
)
taints = st.lists(
    st.builds(
        Taint,
        st.sampled_from(["gpu", "busy"]),
        st.sampled_from(["", "yes", "no"]),
        st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule", "Odd"]),
    ),
    max_size=3,
).map(tuple)
tolerations = st.lists(
    st.builds(
        Toleration,
        st.sampled_from(["", "gpu", "busy", "node.kubernetes.io/unschedulable"]),
        st.sampled_from(["", "Equal", "Exists", "Odd"]),
        st.sampled_from(["", "yes", "no"]),
        st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
    ),
    max_size=3,
).map(tuple)
amounts = st.integers(0, 12) | st.integers(0, 2**40)
requests = st.dictionaries(st.sampled_from([CPU, MEMORY, DISK, GPU, FPGA]), amounts)
allocatable = st.builds(
    lambda offered, pods: {**offered, "pods": pods},
    st.dictionaries(st.sampled_from([CPU, MEMORY, DISK, GPU, FPGA]), amounts),
    st.integers(0, 4),
)
host_ports = st.frozensets(
    st.tuples(
        st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]),
        st.sampled_from(["TCP", "UDP"]),
        st.sampled_from([80, 443]),
    ),
    max_size=2,
)


NO_LABELS: st.SearchStrategy[dict[str, str]] = st.just({})
NO_TAINTS: st.SearchStrategy[tuple[Taint, ...]] = st.just(())
NOTHING: st.SearchStrategy[Amounts] = st.just({})
NO_PORTS: st.SearchStrategy[frozenset[HostPort]] = st.just(frozenset())


@st.composite
def worlds(
    draw: st.DrawFn,
    *,
    node_labels: st.SearchStrategy[dict[str, str]] = NO_LABELS,
    node_taints: st.SearchStrategy[tuple[Taint, ...]] = NO_TAINTS,
    cordoned: st.SearchStrategy[bool] = st.just(False),  # noqa: B008 - strategies do not change
    offers: st.SearchStrategy[Amounts] = NOTHING,
    pod_requests: st.SearchStrategy[Amounts] = NOTHING,
    pod_ports: st.SearchStrategy[frozenset[HostPort]] = NO_PORTS,
) -> PluginWorld:
    """A cluster seen whole, in part, or with pods added to and taken from single nodes."""
    nodes = [
        PlainNode(f"n{number}", draw(node_labels), draw(node_taints), draw(cordoned), draw(offers))
        for number in range(draw(st.integers(1, 6)))
    ]
    pods = [PlainPod(f"p{number}", draw(pod_requests), draw(pod_ports)) for number in range(draw(st.integers(0, 6)))]
    at = [draw(st.none() | st.sampled_from(nodes)) for _ in pods]
    gone = draw(st.sets(st.sampled_from(nodes).map(lambda node: node.name), max_size=2))
    cluster = Cluster()
    _apply(cluster, nodes, pods, at)
    for name in gone:
        cluster.remove_node(name)
    by_name = {node.name: node for node in nodes if node.name not in gone}

    if draw(st.booleans()):
        view = cluster.view(None)
    else:
        chosen = draw(st.lists(st.sampled_from(nodes).map(lambda node: node.name), unique=True))
        view = cluster.view(cluster.nodes.rows_named([name for name in chosen if name in by_name]))
    seen = [by_name.get(name) for name in view.names]
    if draw(st.booleans()):
        view = _changed(draw, cluster, view, seen, pods)
    return PluginWorld(view, seen, Handle(cluster, ClusterFile(cluster, [])))


def _apply(cluster: Cluster, nodes: Sequence[PlainNode], pods: list[PlainPod], at: list[PlainNode | None]) -> None:
    for node in nodes:
        cluster.apply_node(node.to_node())
    for pod, its_node in zip(pods, at, strict=True):
        cluster.apply_pod(pod.to_pod("" if its_node is None else its_node.name))
        if its_node is not None:
            its_node.pods.append(pod)
            its_node.ports |= pod.ports


def _changed(
    draw: st.DrawFn, cluster: Cluster, view: NodeView, seen: list[PlainNode | None], pods: list[PlainPod]
) -> NodeView:
    """Take pods off their nodes and add others, in the view and in the plain nodes."""
    slots = {facts.name: slot for slot, facts in enumerate(cluster.pods.facts) if facts is not None}
    changes: list[tuple[int, int, int]] = []
    for position, node in enumerate(seen):
        if node is None:
            continue
        for pod in draw(st.lists(st.sampled_from(node.pods), unique_by=id)) if node.pods else []:
            changes.append((position, slots[pod.name], -1))
            node.pods.remove(pod)
            # As in kube-scheduler, a port is free as soon as one of the pods that have it goes.
            node.ports -= pod.ports
        for pod in draw(st.lists(st.sampled_from(pods), max_size=2)) if pods else []:
            changes.append((position, slots[pod.name], 1))
            node.pods.append(pod)
            node.ports |= pod.ports
    positions, changed_slots, signs = ([change[part] for change in changes] for part in range(3))
    return view.changed(RowChanges(positions, changed_slots, signs))


def empty_world() -> PluginWorld:
    """A world without nodes."""
    cluster = Cluster()
    return PluginWorld(cluster.view(None), [], Handle(cluster, ClusterFile(cluster, [])))


def rejected(plugin: Filter, state: CycleState, pod: Pod, world: PluginWorld) -> list[Status | None]:
    """What Filter says of each node, None where it passes."""
    rejections = plugin.filter(state, pod, world.view)
    if rejections is None:
        return [None] * len(world.view)
    return [rejections.status_of(key) if key else None for key in np.asarray(rejections.keys).tolist()]


def assert_equal_on_nodes(world: PluginWorld, ours: Sequence[object], expected: Sequence[object]) -> None:
    """What a plugin says of rows that are no nodes does not matter."""
    assert [answer for answer, node in zip(ours, world.nodes, strict=True) if node is not None] == list(expected)


def existing(world: PluginWorld) -> list[PlainNode]:
    return [node for node in world.nodes if node is not None]

"""Random clusters, and changes to single nodes of them, for plugins that look across nodes."""

from typing import NamedTuple

from hypothesis import strategies as st

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.hypothetical import RowChanges
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.status import Rejections
from extender_service.kube.types.core import Affinity, Node, ObjectMeta, Pod, PodSpec

DELETED_AT = "2024-01-01T00:00:00Z"
NAMESPACES = ("shop", "bank")


class Change(NamedTuple):
    """A pod, by its number in the world, that comes to a node (sign 1) or leaves it (-1)."""

    node: int
    pod: int
    sign: int


class HypotheticalWorld(NamedTuple):
    """Nodes, pods that run on them or nowhere, and what is different in each node's own world."""

    nodes: list[Node]
    pods: list[Pod]
    changes: list[Change]

    def view(self) -> tuple[Cluster, NodeView]:
        """The cluster, and its nodes, each in its own world."""
        cluster = Cluster()
        for node in self.nodes:
            cluster.apply_node(node)
        for pod in self.pods:
            cluster.apply_pod(pod)
        slots = [
            cluster._slot_by_key[self.pods[change.pod].metadata.namespace, f"pod-{change.pod}"]
            for change in self.changes
        ]
        rows = RowChanges([change.node for change in self.changes], slots, [change.sign for change in self.changes])
        return cluster, cluster.view(None).changed(rows)

    def pods_on(self, node: int) -> list[Pod]:
        return [pod for pod in self.pods if pod.spec.node_name == f"node-{node}"]


def hypothetical_pod(
    name: str,
    node: str = "",
    *,
    namespace: str = "shop",
    labels: dict[str, str] | None = None,
    affinity: Affinity | None = None,
    deleted: bool = False,
) -> Pod:
    deletion = DELETED_AT if deleted else ""
    metadata = ObjectMeta(
        name=name, namespace=namespace, uid=f"uid-of-{name}", labels=labels or {}, deletion_timestamp=deletion
    )
    return Pod(metadata, PodSpec(node_name=node, scheduler_name="default-scheduler", affinity=affinity))


def hypothetical_node(name: str, **labels: str) -> Node:
    return Node(ObjectMeta(name=name, labels=labels))


def reasons(rejections: Rejections | None, nodes: NodeView) -> list[str | None]:
    """Why each node is rejected, None where it passes."""
    if rejections is None:
        return [None] * len(nodes)
    return [rejections.status_of(key).message if key else None for key in rejections.keys.tolist()]


@st.composite
def hypothetical_worlds(draw: st.DrawFn, pods: st.SearchStrategy[Pod]) -> HypotheticalWorld:
    """Up to five nodes with zones and hosts, up to ten pods, and any changes that can be made to single nodes."""
    zones = draw(st.lists(st.sampled_from([None, "x", "y", ""]), min_size=1, max_size=5))
    nodes = []
    for number, zone in enumerate(zones):
        labels = {} if draw(st.integers(0, 4)) == 0 else {"host": f"node-{number}"}
        nodes.append(hypothetical_node(f"node-{number}", **(labels if zone is None else {**labels, "zone": zone})))
    drawn = draw(st.lists(st.tuples(pods, st.integers(-1, len(nodes) - 1)), max_size=10))
    placed = [
        Pod(
            ObjectMeta(
                name=f"pod-{number}",
                namespace=pod.metadata.namespace,
                uid=f"uid-{number}",
                labels=pod.metadata.labels,
                deletion_timestamp=pod.metadata.deletion_timestamp,
            ),
            PodSpec(node_name=f"node-{node}" if node >= 0 else "", affinity=pod.spec.affinity),
        )
        for number, (pod, node) in enumerate(drawn)
    ]
    chosen = draw(st.sets(st.tuples(st.integers(0, len(nodes) - 1), st.integers(0, 9)), max_size=10))
    changes = [
        Change(node, number, -1 if placed[number].spec.node_name == f"node-{node}" else 1)
        for node, number in sorted(chosen)
        if number < len(placed)
    ]
    return HypotheticalWorld(nodes, placed, changes)

"""One node of a view, for rules that are written node by node."""

from collections.abc import Mapping

import numpy as np

from extender_service.cluster.amounts.dimensions import POD_COUNT
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.view.pod_info import PodInfo
from extender_service.kube.types.core import Node, Taint


class NodeInfo:
    """What is known of one node, with the pods that count on it in its own world; read from the columns when asked for.

    Amounts are in milli-CPU for cpu and in whole units for everything else.
    """

    __slots__ = ("_nodes", "_position", "object")

    def __init__(self, nodes: NodeView, position: int, node: Node) -> None:
        self._nodes = nodes
        self._position = position
        self.object = node

    @property
    def name(self) -> str:
        """The node's name."""
        return self.object.metadata.name

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self.object.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        """The node's annotations."""
        return self.object.metadata.annotations

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return self.object.spec.taints

    @property
    def pod_count(self) -> int:
        """How many pods count on the node."""
        return int(self._nodes.requested(POD_COUNT)[self._position])

    @property
    def pods(self) -> list[PodInfo]:
        """The pods that count on the node, in no particular order."""
        return self._nodes.pods_at(self._position)

    def allocatable(self, resource: str) -> int:
        """What the node offers to pods of a resource; 0 if it does not have it."""
        return int(self._nodes.allocatable(self._nodes.dimension(resource))[self._position])

    def requested(self, resource: str) -> int:
        """What the pods on the node take of a resource, also of one that no node offers."""
        nodes = self._nodes
        dimension = nodes.dimension(resource)
        requested = nodes.requested_of_unoffered(resource) if dimension < 0 else nodes.requested(dimension)
        return int(requested[self._position])

    def free(self, resource: str) -> int:
        """What is left of a resource."""
        return self.allocatable(resource) - self.requested(resource)


def node_named(cluster: Cluster, name: str) -> NodeInfo | None:
    """Return what is known of a node now, or None if it does not exist.

    For code that runs outside Filter and Score, such as PreBind; those are given their nodes.
    """
    row = cluster.nodes.row_of.get(name, -1)
    node = cluster.nodes.objects[row] if row >= 0 else None
    return None if node is None else NodeInfo(cluster.view(np.array([row])), 0, node)

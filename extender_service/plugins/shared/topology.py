"""Where nodes are, by the number of the value that they have of a label, such as that of their zone."""

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.view.node_view import NodeView

Numbers = NDArray[np.intp]
Amounts = NDArray[np.int64]

# From so many nodes on, looking at topologies takes less than looking at nodes.
MANY_NODES = 2_000


def are_many(nodes: NodeView) -> bool:
    """Return whether it is worth looking at topologies instead of nodes, where those are few."""
    return len(nodes) >= MANY_NODES


def are_few(topologies: int, nodes: NodeView) -> bool:
    """Return whether so many topologies are few for these nodes."""
    return 4 * topologies <= len(nodes)


def is_present(numbers: Numbers) -> NDArray[np.bool_]:
    """Return for each node whether it has the label whose value numbers these are."""
    present: NDArray[np.bool_] = numbers != ABSENT
    return present


def has_label(nodes: NodeView, key: str) -> NDArray[np.bool_]:
    """Return for each node whether it has a label with this key."""
    return nodes.remembered(_has_label, key)


def all_have_label(nodes: NodeView, key: str) -> bool:
    """Return whether every node has a label with this key."""
    everywhere = nodes.everywhere()
    # What holds for all nodes is known already, and holds for these.
    return everywhere.remembered(_all_have_label, key) or (
        everywhere is not nodes and nodes.remembered(_all_have_label, key)
    )


def _has_label(nodes: NodeView, key: str) -> NDArray[np.bool_]:
    return is_present(nodes.label(key)[0])


def _all_have_label(nodes: NodeView, key: str) -> bool:
    return bool(has_label(nodes, key).all())

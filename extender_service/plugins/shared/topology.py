"""Where nodes are, by the number of the value that they have of a label, such as that of their zone."""

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.view.node_view import NodeView

Numbers = NDArray[np.intp]
Amounts = NDArray[np.int64]

# In a small cluster, so many topologies are few.
_FEW = 16


def are_few(topologies: int, nodes: NodeView) -> bool:
    """Return whether so many topologies are few for these nodes: then looking at each of them takes next to nothing."""
    return topologies <= max(len(nodes) // 4, _FEW)


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

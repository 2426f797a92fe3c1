"""The nodes that a request asks about: by name, or as whole objects."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.cluster import Cluster
from extender_service.cluster.nodes import NodeTable
from extender_service.cluster.view import NodeView
from extender_service.extender.wire import ExtenderArgs, NodeHead
from extender_service.kube.decoding import DecodeError, Decoder
from extender_service.kube.objects import Node

T = TypeVar("T")

_heads = Decoder(NodeHead)
_nodes = Decoder(Node)


class Candidates:
    """Nodes in the order of the request, and where each is in `view`.

    - `names` by index; `items` the nodes as they came, or None if only names came
    - `positions`: the position in the view by index, -1 for a node that is not known
    - `asked`: which positions of the view are in question
    """

    def __init__(
        self,
        names: Sequence[str],
        items: Sequence[msgspec.Raw] | None,
        view: NodeView,
        positions: NDArray[np.intp],
    ) -> None:
        self.names = names
        self.items = items
        self.view = view
        self.positions = positions
        self.asked = np.zeros(len(view), np.bool_)
        self.asked[positions[positions >= 0]] = True

    @property
    def unknown(self) -> list[str]:
        """Names of nodes that the cache does not have."""
        return [self.names[index] for index in np.flatnonzero(self.positions < 0).tolist()]

    def indexes(self, chosen: NDArray[np.bool_]) -> list[int]:
        """Return the indexes, in the order of the request, of the nodes whose positions are marked."""
        known = np.flatnonzero(self.positions >= 0)
        indexes: list[int] = known[chosen[self.positions[known]]].tolist()
        return indexes

    def index_of(self, position: int) -> int:
        """Return the index in the request of the node at a position."""
        return int(np.flatnonzero(self.positions == position)[0])


def candidates(cluster: Cluster, args: ExtenderArgs) -> Candidates:
    """Find the nodes of a request. Nodes that came whole are taken at their word.

    Raises DecodeError for a node that cannot be read, QuantityError for a malformed quantity in one.
    """
    if args.nodes is not None and (args.nodes.items or args.node_names is None):
        return _whole(cluster, args.nodes.items)
    names = args.node_names or []
    return _at_rows(cluster, names, None, cluster.nodes.rows_named(names), cluster.nodes)


def _whole(cluster: Cluster, items: Sequence[msgspec.Raw]) -> Candidates:
    heads = [_decoded(_heads, item, index).metadata for index, item in enumerate(items)]
    differing = [
        _decoded(_nodes, item, index)
        for index, (item, head) in enumerate(zip(items, heads, strict=True))
        if not _is_cached(cluster, head.name, head.resource_version)
    ]
    if any(not node.metadata.name for node in differing):
        raise DecodeError("Nodes.items: a node has no metadata.name")
    names = [head.name for head in heads]
    table = cluster.with_nodes(differing) if differing else cluster.nodes
    return _at_rows(cluster, names, items, table.rows_named(names), table)


def _decoded(decoder: Decoder[T], item: msgspec.Raw, index: int) -> T:
    try:
        return decoder.decode(item)
    except DecodeError as error:
        raise DecodeError(f"Nodes.items[{index}]: {error}") from error


def _is_cached(cluster: Cluster, name: str, resource_version: str) -> bool:
    row = cluster.nodes.row_of.get(name)
    node = None if row is None else cluster.nodes.objects[row]
    return node is not None and node.metadata.resource_version == resource_version != ""


def _at_rows(
    cluster: Cluster,
    names: Sequence[str],
    items: Sequence[msgspec.Raw] | None,
    rows: NDArray[np.intp],
    table: NodeTable,
) -> Candidates:
    # Where most of the table is asked for, judging all of it costs less than copying columns.
    if 2 * len(rows) >= table.size:
        return Candidates(names, items, cluster.view(None, table), rows)
    is_known = rows >= 0
    positions = np.where(is_known, np.cumsum(is_known) - 1, -1)
    return Candidates(names, items, cluster.view(rows[is_known], table), positions)

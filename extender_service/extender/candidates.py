"""The nodes that a request asks about: by name, or as whole objects."""

import re
from collections import deque
from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.cluster import Cluster
from extender_service.cluster.nodes import NodeTable
from extender_service.cluster.view import NodeView
from extender_service.extender.moderation import MOST_NODES, MOST_OBJECT_BYTES, require_moderate_argument
from extender_service.extender.wire import ExtenderArgs, NodeHead
from extender_service.kube.decoding import DecodeError, Decoder
from extender_service.kube.objects import Node

T = TypeVar("T")

# How Go begins a node in a list. Reading on to its end, through 10 KB of images and more, takes far longer.
_GO_HEAD = re.compile(rb'\{"metadata":\{"name":"([-.a-z0-9]+)","uid":"[-0-9a-f]+","resourceVersion":"([0-9]+)",')

# Filter and prioritize ask about different nodes, and so do several kube-schedulers.
_RECENT = 4

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
        found: "_Found",
    ) -> None:
        self.names = names
        self.items = items
        self.view = view
        self.positions = found.positions
        self.asked = found.asked
        self.found = found

    @property
    def unknown(self) -> list[str]:
        """Names of nodes that the cache does not have."""
        return [self.names[index] for index in self.found.unknown]

    def passing(self, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return the indexes, in the order of the request, of the nodes whose positions are marked."""
        if not self.found.unknown:
            return np.flatnonzero(chosen[self.positions])
        known = np.flatnonzero(self.positions >= 0)
        return known[chosen[self.positions[known]]]

    def asks_the_same(self, others: "Candidates") -> bool:
        """Tell whether just these nodes are asked about, in any order, given that none has come or gone since."""
        if self.found is others.found:
            return True
        of_all = self.found.rows is None and others.found.rows is None
        return of_all and self.items is None and others.items is None and np.array_equal(self.asked, others.asked)

    def index_of(self, position: int) -> int:
        """Return the index in the request of the node at a position."""
        return int(np.flatnonzero(self.positions == position)[0])


class _Found(msgspec.Struct):
    """Where nodes were found: `rows` of the table that a view needs, or None for all of it."""

    rows: NDArray[np.intp] | None
    positions: NDArray[np.intp]
    asked: NDArray[np.bool_]
    unknown: list[int]


class CandidateFinder:
    """Finds the nodes of requests in the cluster, and remembers where those of the last few lists of names were."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._recent: deque[tuple[Sequence[str], int, _Found]] = deque(maxlen=_RECENT)

    def find(self, args: ExtenderArgs) -> Candidates:
        """Find the nodes of a request. Nodes that came whole are taken at their word.

        Raises DecodeError for a node that cannot be read, QuantityError for a malformed quantity in one.
        """
        if args.nodes is not None and (args.nodes.items or args.node_names is None):
            return self._whole(args.nodes.items)
        names = args.node_names or []
        found = self._named(names)
        return Candidates(names, None, self._cluster.view(found.rows), found)

    def _named(self, names: Sequence[str]) -> _Found:
        table = self._cluster.nodes
        for of_names, membership, found in self._recent:
            if of_names is names and membership == table.membership:
                return found
        found = _found(table, names)
        self._recent.append((names, table.membership, found))
        return found

    def _whole(self, items: Sequence[msgspec.Raw]) -> Candidates:
        if len(items) > MOST_NODES:
            raise DecodeError(f"Nodes.items has {len(items)} items, of which {MOST_NODES} are the most")
        heads = [_head(item, index) for index, item in enumerate(items)]
        differing = [
            _decoded(_nodes, item, index)
            for index, (item, (name, resource_version)) in enumerate(zip(items, heads, strict=True))
            if not _is_cached(self._cluster, name, resource_version)
        ]
        if any(not node.metadata.name for node in differing):
            raise DecodeError("Nodes.items: a node has no metadata.name")
        names = [name for name, _ in heads]
        table = self._cluster.with_nodes(differing) if differing else self._cluster.nodes
        found = _found(table, names)
        return Candidates(names, items, self._cluster.view(found.rows, table), found)


def _found(table: NodeTable, names: Sequence[str]) -> _Found:
    rows = table.rows_named(names)
    is_known = rows >= 0
    unknown: list[int] = np.flatnonzero(~is_known).tolist()
    # Where most of the table is asked for, judging all of it costs less than copying columns.
    if 2 * len(rows) >= table.size:
        asked = np.zeros(table.size, np.bool_)
        asked[rows[is_known]] = True
        return _Found(None, rows, asked, unknown)
    known = rows[is_known]
    places: NDArray[np.intp] = np.arange(len(known))
    marks = np.zeros(table.size, np.bool_)
    marks[known] = True
    if np.count_nonzero(marks) < len(known):
        # A node that is named twice has one place: what comes to a node, such as a nominated pod, comes to its place.
        known, places = np.unique(known, return_inverse=True)
    positions = np.full(len(rows), -1, np.intp)
    positions[is_known] = places
    return _Found(known, positions, np.ones(len(known), np.bool_), unknown)


def _head(item: msgspec.Raw, index: int) -> tuple[str, str]:
    """Return a node's name and resource version."""
    as_go_writes = _GO_HEAD.match(item)
    if as_go_writes is not None:
        return as_go_writes[1].decode(), as_go_writes[2].decode()
    metadata = _decoded(_heads, item, index).metadata
    return metadata.name, metadata.resource_version


def _decoded(decoder: Decoder[T], item: msgspec.Raw, index: int) -> T:
    require_moderate_argument(f"Nodes.items[{index}]", item, MOST_OBJECT_BYTES)
    try:
        return decoder.decode(item)
    except DecodeError as error:
        raise DecodeError(f"Nodes.items[{index}]: {error}") from error


def _is_cached(cluster: Cluster, name: str, resource_version: str) -> bool:
    row = cluster.nodes.row_of.get(name)
    node = None if row is None else cluster.nodes.objects[row]
    return node is not None and node.metadata.resource_version == resource_version != ""

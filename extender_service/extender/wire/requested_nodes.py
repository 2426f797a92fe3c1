"""The nodes that a request asks about: by name, or as whole objects."""

import re
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.view.node_view import NodeView
from extender_service.extender.wire.request_limits import MOST_NODES, MOST_OBJECT_BYTES, require_moderate_argument
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.types.core import Node
from extender_service.kube.types.extender_api import ExtenderArgs, NodeHead
from extender_service.kube.types.versions import version_number
from extender_service.scheduling.asked_nodes import AskedNodes, FoundRows, NamedNodes, NodeFinder, find_rows

T = TypeVar("T")

UNKNOWN_NODE = "node(s) not known to extender-service yet"

# How Go begins a node in a list. Parsing the whole node, with 10 KB of images and more, takes far longer.
_GO_HEAD = re.compile(rb'\{"metadata":\{"name":"([-.a-z0-9]+)","uid":"[-0-9a-f]+","resourceVersion":"([0-9]+)",')

_heads = Decoder(NodeHead)
_nodes = Decoder(Node)


class WholeNodes(NamedNodes):
    """Nodes that the caller sent whole: `items` are the undecoded objects.

    `has_newer`: one of them is newer than the one that the watch has shown.
    """

    by_name = False

    def __init__(
        self, names: Sequence[str], view: NodeView, found: FoundRows, items: Sequence[msgspec.Raw], *, has_newer: bool
    ) -> None:
        super().__init__(names, view, found)
        self.items = items
        self.has_newer = has_newer


class RequestedNodes:
    """Finds the nodes of requests in the cluster."""

    def __init__(self, cluster: Cluster, finder: NodeFinder) -> None:
        self._cluster = cluster
        self._finder = finder

    def find(self, args: ExtenderArgs) -> AskedNodes:
        """Find the nodes of a request. Nodes that the caller sent whole are judged as sent.

        Raises DecodeError for a node that cannot be decoded, QuantityError for a malformed quantity in one.
        """
        if args.nodes is not None and (args.nodes.items or args.node_names is None):
            return self._whole(args.nodes.items)
        return self._finder.named(args.node_names or [])

    def _whole(self, items: Sequence[msgspec.Raw]) -> WholeNodes:
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
        found = find_rows(table, names)
        view = self._cluster.view(found.rows, table)
        has_newer = any(_is_newer(self._cluster, node) for node in differing)
        return WholeNodes(names, view, found, items, has_newer=has_newer)


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


def _is_newer(cluster: Cluster, node: Node) -> bool:
    cached = _cached(cluster, node.metadata.name)
    seen = "" if cached is None else cached.metadata.resource_version
    return version_number(node.metadata.resource_version) > version_number(seen)


def _is_cached(cluster: Cluster, name: str, resource_version: str) -> bool:
    node = _cached(cluster, name)
    return node is not None and node.metadata.resource_version == resource_version != ""


def _cached(cluster: Cluster, name: str) -> Node | None:
    row = cluster.nodes.row_of.get(name)
    return None if row is None else cluster.nodes.objects[row]

"""The order in which kube-scheduler looks at nodes: in turns from zone to zone (internal/cache/node_tree.go)."""

from collections.abc import Mapping
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.kube.types.core import Node

_Labels = Mapping[str, str]


class NodeOrder:
    """Follows the nodes of a table. A zone is in the place of its first node, a node behind those of its zone.

    kube-scheduler reads the order when an attempt begins, and only if nodes have come or gone since the last one. So a
    node that only changes its zone, or is deleted and created again between two attempts, keeps its place until then.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._zone_of: dict[str, str] = {}
        # Zones in their order, each with its nodes in theirs.
        self._zones: dict[str, dict[str, None]] = {}
        self._listed: list[str] = []
        self._may_differ = False
        self._rows: NDArray[np.intp] = np.zeros(0, np.intp)
        self._rows_at = -1

    def apply(self, node: Node) -> None:
        """Add a node, or note its zone."""
        name, zone = node.metadata.name, _zone(node.metadata.labels)
        old = self._zone_of.get(name)
        if old == zone:
            return
        if old is None:
            self._may_differ = True
        else:
            self._take_out(name, old)
        self._zone_of[name] = zone
        self._zones.setdefault(zone, {})[name] = None

    def remove(self, name: str) -> None:
        """Forget a node."""
        zone = self._zone_of.pop(name, None)
        if zone is not None:
            self._take_out(name, zone)
            self._may_differ = True

    def begin_attempt(self) -> None:
        """Read the order again if nodes have come or gone since the last attempt (UpdateSnapshot in cache.go)."""
        if self._may_differ:
            self._may_differ = False
            if self._zone_of.keys() != set(self._listed):
                turns = zip_longest(*self._zones.values())
                self._listed = [name for turn in turns for name in turn if name is not None]
                self._rows_at = -1

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows of the nodes in the table, in the order as the attempt began."""
        if self._rows_at != self._table.membership:
            rows = self._table.rows_named(self._listed)
            self._rows = rows[rows >= 0]
            self._rows_at = self._table.membership
        return self._rows

    def _take_out(self, name: str, zone: str) -> None:
        nodes = self._zones[zone]
        del nodes[name]
        if not nodes:
            del self._zones[zone]


def _zone(labels: _Labels) -> str:
    """Return the region and zone of a node (GetZoneKey in component-helpers)."""
    zone = _label(labels, "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
    region = _label(labels, "failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
    return f"{region}:\0:{zone}" if region or zone else ""


def _label(labels: _Labels, old_key: str, key: str) -> str:
    return labels[old_key] if old_key in labels else labels.get(key, "")

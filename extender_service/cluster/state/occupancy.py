"""Pods on nodes: keeps the sums of the node table, and the volumes held, equal to the pods that count on each row."""

from collections.abc import Iterable

import numpy as np

from extender_service.cluster.amounts.requests import OLDEST_REQUEST_RULES, RequestRules
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.pods.pod_entries import PodEntry
from extender_service.cluster.pods.pod_table import NO_ROW, PodTable
from extender_service.cluster.volumes.held_volumes import HeldVolumes
from extender_service.cluster.volumes.storage_table import Storage
from extender_service.kube.types.core import Node


class Occupancy:
    """The node table, the pod table and the volumes that pods hold, which change together.

    `rules` say what pods take. With `attachments_count`, volumes are attached to a node also by VolumeAttachments.
    """

    def __init__(self, rules: RequestRules = OLDEST_REQUEST_RULES, *, attachments_count: bool = False) -> None:
        self.rules = rules
        self.nodes = NodeTable()
        self.pods = PodTable(self.nodes.dimensions)
        self.storage = Storage()
        self.volumes = HeldVolumes(self.storage, self.nodes if attachments_count else None)

    def apply_node(self, node: Node) -> bool:
        """Add or update a node; returns whether anything changed that a pod may be waiting for.

        Raises QuantityError for a malformed quantity, and changes nothing then.
        """
        is_changed = self.nodes.apply(node)
        if is_changed:  # unlike a heartbeat
            self._follow_offers()
        return is_changed

    def remove_node(self, name: str) -> bool:
        """Forget a node, though not the pods on it; returns whether it was known."""
        was_known = self.nodes.remove(name)
        self._follow_offers()
        return was_known

    def with_nodes(self, nodes: Iterable[Node]) -> NodeTable:
        """Return a copy of the node table in which these nodes are as given.

        Of a resource that only they offer, the copy has what pods on nodes request, and the pod table has nothing: a
        pod that goes or comes in a node's own world changes nothing of it.

        Raises QuantityError for a malformed quantity.
        """
        table = self.nodes.copy()
        for node in nodes:
            table.apply(node)
        self._count_offered(table)
        return table

    def add(self, entry: PodEntry) -> int:
        """Take a pod in, counting on its node if it has one; returns its slot."""
        row = self.nodes.row_for(entry.node_name) if entry.node_name else NO_ROW
        slot = self.pods.add(entry, row)
        if row != NO_ROW:
            self.nodes.add_pod(row, self.pods.amounts_of(slot), entry.ports)
        self.volumes.add(slot, row, entry.volumes)
        return slot

    def remove(self, slot: int) -> None:
        """Forget a pod."""
        self.volumes.remove(slot)
        row = self.pods.displace(slot)
        if row != NO_ROW:
            self.nodes.remove_pod(row, self.pods.amounts_of(slot), self.pods.ports_of(slot))
        self.pods.remove(slot)

    def _follow_offers(self) -> None:
        """Let what pods request of a resource have a dimension from when a node offers it until none does."""
        for resource, dimension, is_offered in self._count_offered(self.nodes):
            if is_offered:
                self.pods.give_dimension(resource, dimension)
            else:
                self.pods.take_dimension(resource, dimension)

    def _count_offered(self, table: NodeTable) -> list[tuple[str, int, bool]]:
        """Count in a table what pods request of resources that its nodes have begun to offer, and nothing of those that
        they offer no more; returns these resources with their dimensions, and whether they are offered."""
        followed = []
        for resource, dimension in table.dimensions.take_changes():
            is_offered = table.dimensions.find(resource) == dimension
            by_row = np.zeros(table.capacity, np.int64)
            if is_offered:
                self.pods.add_requested_by_row(resource, by_row)
            table.set_requested(dimension, by_row)
            followed.append((resource, dimension, is_offered))
        return followed

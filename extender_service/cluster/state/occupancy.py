"""Pods on nodes: keeps the sums of the node table, and the volumes held, equal to the pods that count on each row."""

from extender_service.cluster.amounts.requests import OLDEST_REQUEST_RULES, RequestRules
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.pods.pod_entries import PodEntry
from extender_service.cluster.pods.pod_table import NO_ROW, PodTable
from extender_service.cluster.volumes.held_volumes import HeldVolumes
from extender_service.cluster.volumes.storage_table import Storage


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

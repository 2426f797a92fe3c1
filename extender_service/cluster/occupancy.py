"""Pods on nodes: keeps the sums of the node table, and the volumes held, equal to the pods that count on each row."""

from extender_service.cluster.held_volumes import HeldVolumes
from extender_service.cluster.nodes import NodeTable
from extender_service.cluster.pods import NO_ROW, PodTable
from extender_service.cluster.storage import Storage
from extender_service.kube.objects import Pod


class Occupancy:
    """The node table, the pod table and the volumes that pods hold, which change together."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self.pods = PodTable(self.nodes.dimensions)
        self.storage = Storage()
        self.volumes = HeldVolumes(self.storage)

    def add(self, pod: Pod, uid: str, node_name: str) -> int:
        """Take a pod in, counting on `node_name` unless that is empty; returns its slot.

        Raises QuantityError for a malformed quantity, and changes nothing then.
        """
        slot = self.pods.add(pod, uid, node_name)
        if node_name:
            row = self.nodes.row_for(node_name)
            self.nodes.add_pod(row, self.pods.amounts_of(slot), self.pods.ports_of(slot))
            self.pods.place(slot, row)
        self.volumes.add(slot, int(self.pods.row[slot]), self.pods[slot].volumes)
        return slot

    def remove(self, slot: int) -> None:
        """Forget a pod."""
        self.volumes.remove(slot)
        row = self.pods.displace(slot)
        if row != NO_ROW:
            self.nodes.remove_pod(row, self.pods.amounts_of(slot), self.pods.ports_of(slot))
        self.pods.remove(slot)

"""The state of the cluster that both programs decide on: nodes, pods, and placements that are ahead of the watch."""

from collections.abc import Container, Iterable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.amounts.requests import request_rules
from extender_service.cluster.nodes.node_memory import NodeMemory
from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.owners.owners import Workloads
from extender_service.cluster.pods.pod_counts import PodCounts, PodQuery
from extender_service.cluster.pods.pod_entries import PodEntry, pod_entry
from extender_service.cluster.pods.pod_table import NO_ROW, PodFacts, PodKey, PodTable
from extender_service.cluster.state.changes import Change, Changes
from extender_service.cluster.state.nominated_columns import Nominated
from extender_service.cluster.state.nominations import Nominations
from extender_service.cluster.state.occupancy import Occupancy
from extender_service.cluster.state.placements import Placements
from extender_service.cluster.view.node_view import NodeView, compute
from extender_service.cluster.volumes.held_volumes import HeldVolumes
from extender_service.cluster.volumes.storage_table import Storage, StorageObject
from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.kube.types.core import Node, Pod
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.pods import TERMINAL_PHASES, pod_uid
from extender_service.kube.types.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from extender_service.kube.types.versions import version_number
from extender_service.kube.types.watched_pods import AnyPod

_STORAGE_CHANGES: dict[type, Change] = {
    PersistentVolume: Change.VOLUME,
    PersistentVolumeClaim: Change.CLAIM,
    StorageClass: Change.STORAGE_CLASS,
    CSINode: Change.CSI_NODE,
    CSIDriver: Change.CSI_DRIVER,
    CSIStorageCapacity: Change.CSI_STORAGE_CAPACITY,
    VolumeAttachment: Change.VOLUME_ATTACHMENT,
}


class Cluster:
    """The cluster as one thread reads and writes it. Objects may come in any order: a pod before its node, too.

    Like kube-scheduler's cache it leaves out pods that have succeeded or failed.
    """

    def __init__(self, rules: Rules = DEFAULT_RULES) -> None:
        """`rules` are those of the release that is followed: they also say what pods and nodes count as."""
        self.rules = rules
        self.request_rules = request_rules(rules)
        self._occupancy = Occupancy(self.request_rules, attachments_count=rules.attachments_count)
        self._slot_by_uid: dict[str, int] = {}
        self._slot_by_key: dict[PodKey, int] = {}
        self.changes = Changes()
        self.memory = NodeMemory(self._occupancy.nodes)
        self._compute = partial(compute, self.memory, self._occupancy.pods)
        self.pod_counts = PodCounts(self._occupancy.pods)
        self.workloads = Workloads()
        self.placements = Placements(self._occupancy)
        self.nominations = Nominations(
            self.pods, self.nodes, self.placements, self.changes, gated_count=rules.gated_nominees
        )

    @property
    def nodes(self) -> NodeTable:
        """The table of nodes, for reading."""
        return self._occupancy.nodes

    @property
    def pods(self) -> PodTable:
        """The table of pods, for reading; placements have slots of their own."""
        return self._occupancy.pods

    @property
    def storage(self) -> Storage:
        """Volumes, claims and what else is known of storage, for reading."""
        return self._occupancy.storage

    @property
    def held_volumes(self) -> HeldVolumes:
        """Which volumes the pods hold, for reading."""
        return self._occupancy.volumes

    def show_only(self, kinds: Container[type]) -> None:
        """Hide from plugins all but nodes, pods and objects of these kinds: nothing keeps the others current."""
        self.workloads.show_only(kinds)
        self.storage.show_only(kinds)

    @property
    def node_count(self) -> int:
        """Nodes that exist."""
        return self.nodes.count

    @property
    def pod_count(self) -> int:
        """Pods that the watch knows."""
        return len(self._slot_by_key)

    def apply_node(self, node: Node) -> None:
        """Add or update a node. Raises QuantityError for a malformed quantity, and changes nothing then."""
        name = node.metadata.name
        was_known = self.nodes.is_node(name)
        if self._occupancy.apply_node(node):
            self.changes.notify(Change.NODE_UPDATED if was_known else Change.NODE_ADDED, ("", name))

    def remove_node(self, name: str) -> None:
        """Forget a node; pods on it count again if it comes back."""
        if self._occupancy.remove_node(name):
            self.changes.notify(Change.NODE_REMOVED, ("", name))

    @property
    def version(self) -> tuple[int, ...]:
        """A value that differs after each change that a decision may depend on, except nominations: of nodes, of pods
        that count on a node, of volumes, of the objects that show which pods belong together."""
        nodes = self.nodes
        return (nodes.amount_changes.count, nodes.membership, self.storage.change_count, self.workloads.change_count)

    def node_names(self) -> list[str]:
        """Names of the nodes that exist, in row order."""
        return [node.metadata.name for node in self.nodes.objects if node is not None]

    def apply_pod(self, pod: AnyPod) -> None:
        """Add or update a pod. Raises QuantityError or DecodeError for a malformed one, and changes nothing then."""
        key = (pod.metadata.namespace, pod.metadata.name)
        uid = pod_uid(pod)
        if pod.status.phase in TERMINAL_PHASES:
            self.remove_pod(key)
            self.end_placement(uid)
            return
        node_name = pod.spec.node_name
        old_slot = self._slot_by_key.get(key)
        entry = pod_entry(pod, uid, node_name, self.request_rules)
        if old_slot is not None and self.pods.is_amended_by(old_slot, entry):
            self.pods.amend(old_slot, entry)
            self.nominations.apply(pod, uid, old_slot)
            if node_name:
                self._settle(uid, node_name)
            return
        expected_slot = self._take_over_placement(entry) if node_name else None
        slot = self._occupancy.add(entry) if expected_slot is None else expected_slot
        old = None if old_slot is None else self._forget(old_slot)
        self._slot_by_key[key] = self._slot_by_uid[uid] = slot
        self.nominations.apply(pod, uid, slot)
        if old is not None:
            if old.uid != uid:
                if old.uid not in self._slot_by_uid:
                    self.nominations.remove(old.uid)
                self.end_placement(old.uid)
            if old.node_name:
                self.changes.notify(Change.POD_REMOVED, key)
        if node_name:
            self._settle(uid, node_name)
            self.changes.notify(Change.POD_ADDED, key)

    def remove_pod(self, key: PodKey) -> None:
        """Forget a pod, and any placement of it."""
        slot = self._slot_by_key.get(key)
        if slot is None:
            return
        facts = self._forget(slot)
        if facts.uid not in self._slot_by_uid:
            self.nominations.remove(facts.uid)
        placement = self.placements.end_unreported(facts.uid)
        if facts.node_name or placement is not None:
            self.changes.notify(Change.POD_REMOVED, key)
        if not facts.node_name:
            self.changes.notify(Change.PENDING_POD_REMOVED, key)

    def pod_keys(self) -> list[PodKey]:
        """Namespace and name of all pods that the watch knows."""
        return list(self._slot_by_key)

    def pod(self, uid: str) -> PodFacts | None:
        """What the watch says of a pod."""
        slot = self._slot_by_uid.get(uid)
        return None if slot is None else self.pods[slot]

    def count_pods(self, query: PodQuery) -> int:
        """Return how many pods of the query count on a node, as a fact or as a placement."""
        return int(self.pod_counts.by_row(query, self.nodes.size).sum())

    def count_pods_on(self, nodes: NodeView, query: PodQuery) -> NDArray[np.int64]:
        """Return how many pods of the query count on each of these nodes, in its own world."""
        pods = self.pods

        def are_counted(slots: NDArray[np.intp]) -> NDArray[np.int64]:
            counted = pods.label_sets.matching(query.selectors)[pods.label_set[slots]]
            return (counted & (~pods.terminating[slots] | query.with_terminating)).astype(np.int64)

        return nodes.by_row(self.pod_counts.by_row(query, nodes.table.size)) + nodes.added(query, are_counted)

    def slot_on(self, uid: str, node_name: str) -> int | None:
        """Return the slot of a pod if it counts on this node, as a fact or as a placement."""
        row = self.nodes.row_of.get(node_name, NO_ROW)
        placement = self.placements.get(uid)
        for slot in (self._slot_by_uid.get(uid), None if placement is None else placement.slot):
            if slot is not None and self.pods.row[slot] == row != NO_ROW:
                return slot
        return None

    def nominated_for(self, pod: Pod, scheduler_names: Container[str]) -> Nominated:
        """Return the nominated pods that count when a pod is judged (see Nominations)."""
        return self.nominations.counting_for(pod, scheduler_names)

    def slot_of(self, key: PodKey) -> int | None:
        """Return the slot of a pod that the watch knows."""
        return self._slot_by_key.get(key)

    def pending_slot(self, uid: str) -> int | None:
        """Return the slot of a pod that the watch shows on no node; None if it shows no such pod."""
        slot = self._slot_by_uid.get(uid)
        return None if slot is None or self.pods[slot].node_name else slot

    def drop_placement(self, uid: str) -> None:
        """End a placement that has failed or is out of date; its room is free again."""
        placement = self.placements.drop_unreported(uid)
        if placement is not None:
            self.changes.notify(Change.POD_REMOVED, key_of(placement.pod))

    def end_placement(self, uid: str) -> None:
        """End the placement of a pod that has ended."""
        placement = self.placements.end_unreported(uid)
        if placement is not None:
            self.changes.notify(Change.POD_REMOVED, key_of(placement.pod))

    def end_unlisted_placements(self, version: str) -> None:
        """End the placements of pods that a list at this resource version should show, and does not.

        Such a pod was created, and has ended or gone, while no watch of pods was open that would have shown it.
        """
        listed_at = version_number(version)
        for placement in list(self.placements):
            seen_at = version_number(placement.pod.metadata.resource_version)
            if 0 < seen_at <= listed_at and self.pod(placement.uid) is None:
                self.end_placement(placement.uid)

    def fulfil_placement(self, uid: str) -> None:
        """End a placement whose pod was bound to its node, and has ended or gone; its room is free again."""
        placement = self.placements.fulfil_unreported(uid)
        if placement is not None:
            self.changes.notify(Change.POD_REMOVED, key_of(placement.pod))

    def apply_storage(self, item: StorageObject) -> None:
        """Add or update a volume, a claim or another storage object.

        Raises QuantityError for a malformed quantity, and changes nothing then.
        """
        self.storage.apply(item)
        if isinstance(item, CSINode):
            self.nodes.apply_csi_node(item.metadata.name, item)
        key = key_of(item)
        self.held_volumes.refresh(type(item), key)
        self.changes.notify(_STORAGE_CHANGES[type(item)], key)

    def remove_storage(self, kind: type[StorageObject], key: Key) -> None:
        """Forget a volume, a claim or another storage object."""
        self.storage.remove(kind, key)
        if kind is CSINode:
            self.nodes.apply_csi_node(key[1], None)
        self.held_volumes.refresh(kind, key)
        if kind is VolumeAttachment:
            self.changes.notify(Change.VOLUME_ATTACHMENT, key)

    def catch_up(self) -> None:
        """Bring the columns that the last decisions used up to date, while no call waits for them."""
        self.memory.by_facts.catch_up(self._compute)
        self.memory.by_room.catch_up(self._compute)

    def view(self, rows: NDArray[np.intp] | None, table: NodeTable | None = None) -> NodeView:
        """Return the nodes at `rows` (None: the whole table), of this cluster's table or of a changed copy of it."""
        memory = self.memory if table is None or table is self.nodes else NodeMemory(table)
        return NodeView(memory, self.pods, memory.memo(rows))

    def with_nodes(self, nodes: Iterable[Node]) -> NodeTable:
        """Return a copy of the node table in which these nodes are as given.

        Raises QuantityError for a malformed quantity.
        """
        return self._occupancy.with_nodes(nodes)

    def _forget(self, slot: int) -> PodFacts:
        facts = self.pods[slot]
        self._occupancy.remove(slot)
        del self._slot_by_key[facts.key]
        # Pods of a cluster file may claim the same UID; the last one has it.
        if self._slot_by_uid.get(facts.uid) == slot:
            del self._slot_by_uid[facts.uid]
        return facts

    def _take_over_placement(self, entry: PodEntry) -> int | None:
        """Turn a placement that the watch confirms into the fact, and return its slot.

        What is cached for its row stays valid. None if the UID has no placement, if that is of another pod, or if it
        differs by `PodTable.is_amended_by`, such as in its node.
        """
        placement = self.placements.get(entry.uid)
        if placement is None:
            return None
        # Pods of a cluster file may claim the same UID.
        is_this_pod = self.pods[placement.slot].key == (entry.namespace, entry.name)
        if not is_this_pod or not self.pods.is_amended_by(placement.slot, entry):
            return None
        self.pods.amend(placement.slot, entry)
        return self.placements.hand_over(entry.uid)

    def _settle(self, uid: str, node_name: str) -> None:
        placement = self.placements.get(uid)
        if placement is None:
            return
        if placement.node_name == node_name:
            self.placements.fulfil_unreported(uid)
        else:
            self.drop_placement(uid)

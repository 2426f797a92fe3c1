"""EBSLimits, GCEPDLimits, AzureDiskLimits and CinderLimits: the limits of in-tree volumes on nodes without a CSINode
(plugins/nodevolumelimits/non_csi.go). They are deprecated, and not in the default profile."""

import logging
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from extender_service.cluster.pods.pod_volumes import InTreeUse, PodVolumes
from extender_service.cluster.view.node_view import NodeView
from extender_service.cluster.volumes.attachments import Fault
from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import (
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    ActionType,
    ClusterEvent,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter
from extender_service.framework.status import SKIP, Code, Rejections, Status, unresolvable, unschedulable
from extender_service.kube.parsing.csi_migration import AZURE_DISK, CINDER, EBS, GCE_PD, in_tree_disk, in_tree_plugin
from extender_service.kube.types.core import Node, Object, Pod
from extender_service.kube.types.keys import Key
from extender_service.kube.types.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass

log = logging.getLogger(__name__)

# Overrides the default limits of all four plugins, as in kube-scheduler.
_VARIABLE = "KUBE_MAX_PD_VOLS"
_NUMBER = re.compile(r"[+-]?[0-9]+")
_INSTANCE_TYPES = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_NITRO = re.compile(r"^[cmr]5.*|t3|z1d")
_NITRO_LIMIT = 25
_TOO_MANY = unschedulable("node(s) exceed max volume count")

# A volume of a plugin, or the claim that one will be made for.
Disk = str | Key


class InTreeVolumeLimits(PreFilter, Filter):
    """Rejects nodes without a CSINode where the pod's volumes of one in-tree plugin would be too many. Where there is a
    CSINode, the plugin is migrated, and NodeVolumeLimits counts its volumes.

    The limit is the node's allocatable amount of `limit_key`, else that of the environment variable KUBE_MAX_PD_VOLS,
    else the default.
    """

    plugin: ClassVar[str]
    limit_key: ClassVar[str]
    default_limit: ClassVar[int]
    reads: ClassVar[frozenset[type[Object]]] = frozenset(
        {PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode}
    )
    retry_on = (
        ClusterEvent(NODE, ActionType.ADD),
        ClusterEvent(POD, ActionType.DELETE),
        ClusterEvent(PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
    )

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._limit_of_all = _limit_in_environment()

    @classmethod
    def points_in(cls, rules: Rules) -> set[str]:
        """Return the extension points in a release: none after the plugins are gone."""
        return set() if rules.volume_limits_of_drivers else {"preFilter", "filter"}

    def default_limit_on(self, node: Node) -> int:
        """Return the limit of a node that gives none."""
        return self.default_limit

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Skip Filter for pods without volumes that could count."""
        uses = state.volumes.attachable
        return None if any(not isinstance(use, InTreeUse) or use.plugin == self.plugin for use in uses) else SKIP

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes with too many volumes; a volume of a pod there that cannot be read is an error."""
        wanted = self._disks(state.volumes, is_new=True)
        if isinstance(wanted, Fault):
            status = unresolvable(wanted.text) if wanted.is_missing else Status(Code.ERROR, (wanted.text,))
            return Rejections.where(np.ones(len(nodes), np.bool_), status)
        if not wanted:
            return None
        statuses: list[Status | None] = [None]
        numbers = np.zeros(len(nodes), np.intp)
        holders = self._holders(nodes)
        for position, node, allocatable in _without_csi_node(nodes, self.limit_key):
            state.require_time()
            held = self._held_by(holders[position])
            if isinstance(held, Fault):
                status = Status(Code.ERROR, (held.text,))
            elif len(held | wanted) > self._limit(node, allocatable):
                status = _TOO_MANY
            else:
                continue
            if status not in statuses:
                statuses.append(status)
            numbers[position] = statuses.index(status)
        return Rejections.per_value(numbers, statuses) if numbers.any() else None

    def _limit(self, node: Node, allocatable: int | None) -> int:
        if allocatable is not None:
            return allocatable
        return self._limit_of_all or self.default_limit_on(node)

    def _holders(self, nodes: NodeView) -> dict[int, list[int]]:
        """Return the slots of the pods with volumes, by the position of their node, each in its own world."""
        slots = np.array(self.handle.cluster.held_volumes.slots(), np.intp)
        positions = nodes.positions_of_rows(self.handle.cluster.pods.row[slots])
        holders: dict[int, list[int]] = defaultdict(list)
        for position, slot in zip(positions.tolist(), slots.tolist(), strict=True):
            holders[position].append(slot)
        changes = nodes.changes
        if changes is not None:
            moved = zip(changes.positions.tolist(), changes.slots.tolist(), changes.signs.tolist(), strict=True)
            for position, slot, sign in moved:
                if sign > 0:
                    holders[position].append(slot)
                elif slot in holders[position]:
                    holders[position].remove(slot)
        return holders

    def _held_by(self, slots: list[int]) -> set[Disk] | Fault:
        held: set[Disk] = set()
        for slot in slots:
            disks = self._disks(self.handle.cluster.pods[slot].volumes, is_new=False)
            if isinstance(disks, Fault):
                return disks
            held |= disks
        return held

    def _disks(self, volumes: PodVolumes, *, is_new: bool) -> set[Disk] | Fault:
        """Return a pod's volumes of this plugin, or the first fault (filterVolumes). A claim that is missing is one if
        the pod `is_new`, and does not count if it runs."""
        storage = self.handle.cluster.storage
        disks: set[Disk] = set()
        for use in volumes.attachable:
            if isinstance(use, InTreeUse):
                if use.plugin == self.plugin:
                    disks.add(use.disk)
                continue
            namespace, name = use.key
            if not name:
                return Fault("PersistentVolumeClaim had no name")
            claim = storage.claim(namespace, name)
            if claim is None and not is_new:
                continue
            if claim is None:
                text = f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found'
                return Fault(text, is_missing=True)
            if fault := use.ownership_fault(claim):
                return Fault(fault)
            volume = storage.volume(claim.spec.volume_name) if claim.spec.volume_name else None
            if volume is not None:
                if in_tree_plugin(volume.spec) == self.plugin:
                    disks.add(in_tree_disk(volume.spec))
            elif self._makes(claim):
                disks.add(use.key)
        return disks

    def _makes(self, claim: PersistentVolumeClaim) -> bool:
        storage_class = self.handle.cluster.storage.storage_class(claim.spec.storage_class_name)
        return storage_class is not None and storage_class.provisioner == self.plugin


class EBSLimits(InTreeVolumeLimits):
    """Limits the EBS volumes of a node."""

    name: ClassVar[str] = "EBSLimits"
    plugin: ClassVar[str] = EBS
    limit_key: ClassVar[str] = "attachable-volumes-aws-ebs"
    default_limit: ClassVar[int] = 39

    def default_limit_on(self, node: Node) -> int:
        """Return the limit of the node's instance type."""
        labels = node.metadata.labels
        instance_type = next((labels[key] for key in _INSTANCE_TYPES if key in labels), "")
        return _NITRO_LIMIT if _NITRO.search(instance_type) else self.default_limit


class GCEPDLimits(InTreeVolumeLimits):
    """Limits the GCE persistent disks of a node."""

    name: ClassVar[str] = "GCEPDLimits"
    plugin: ClassVar[str] = GCE_PD
    limit_key: ClassVar[str] = "attachable-volumes-gce-pd"
    default_limit: ClassVar[int] = 16


class AzureDiskLimits(InTreeVolumeLimits):
    """Limits the Azure disks of a node."""

    name: ClassVar[str] = "AzureDiskLimits"
    plugin: ClassVar[str] = AZURE_DISK
    limit_key: ClassVar[str] = "attachable-volumes-azure-disk"
    default_limit: ClassVar[int] = 16


class CinderLimits(InTreeVolumeLimits):
    """Limits the Cinder volumes of a node."""

    name: ClassVar[str] = "CinderLimits"
    plugin: ClassVar[str] = CINDER
    limit_key: ClassVar[str] = "attachable-volumes-cinder"
    default_limit: ClassVar[int] = 256


def _limit_in_environment() -> int:
    """Return the limit that the environment sets; 0 for none."""
    text = os.environ.get(_VARIABLE, "")
    limit = int(text) if _NUMBER.fullmatch(text) else 0
    if text and limit <= 0:
        log.error(f"the environment variable {_VARIABLE} must be a number above 0", extra={"value": text})
    return max(limit, 0)


def _without_csi_node(nodes: NodeView, limit_key: str) -> Iterator[tuple[int, Node, int | None]]:
    """Yield the nodes without a CSINode: position, node, and its allocatable amount of `limit_key`."""
    supports = nodes.volume_supports
    for position, (node, number) in enumerate(zip(nodes.objects, nodes.volume_support.tolist(), strict=True)):
        support = supports[number]
        if node is not None and (support is None or not support.has_csi_node):
            yield position, node, None if support is None else support.limit(limit_key)

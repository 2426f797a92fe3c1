"""VolumeRestrictions: some volumes cannot be mounted by two pods, on one node or at all."""

from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.pods.pod_volumes import NO_VOLUMES, DiskUse, disk_uses
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cluster_event import (
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    ActionType,
    ClusterEvent,
    QueueingHint,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, Reach
from extender_service.framework.plugin_errors import PluginError
from extender_service.framework.status import SKIP, Rejections, Status, unresolvable, unschedulable
from extender_service.kube.types.core import Object, Pod
from extender_service.kube.types.storage import PersistentVolumeClaim
from extender_service.plugins.shared.changed_nodes import node_changes
from extender_service.plugins.shared.changed_pods import is_of_pod, pods_on_nodes
from extender_service.plugins.shared.event_objects import only_new, only_old

DISK_CONFLICT = unschedulable("node(s) had no available disk")
CLAIM_CONFLICT = unschedulable(
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)
CLAIM_IN_USE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

_CLAIMS = "PreFilterVolumeRestrictions"
_ONCE = "ReadWriteOncePod"


class _Claims(msgspec.Struct, frozen=True):
    """Names of the pod's ReadWriteOncePod claims, and how many of these are in use by pods on nodes."""

    names: frozenset[str]
    in_use: int


class VolumeRestrictions(PreFilter, Filter):
    """Rejects nodes where a pod has a disk that the pod would mount, unless both only read it; and all nodes where a
    pod anywhere has a claim of the pod that is for one pod only.

    Such a claim is in use or not for all nodes together, but a pod that is taken off a node frees a claim of the same
    name in any namespace, as in the reference (conflictingPVCRefCountForPod).
    """

    name: ClassVar[str] = "VolumeRestrictions"
    treats_alike: ClassVar[bool] = True
    reach: ClassVar[Reach] = Reach.NONE
    reads: ClassVar[frozenset[type[Object]]] = frozenset({PersistentVolumeClaim})
    retry_on = (
        ClusterEvent(POD, ActionType.DELETE),
        ClusterEvent(NODE, ActionType.ADD),
        ClusterEvent(PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
    )

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        if handle.rules.fewer_events_wake:
            self.retry_on = (
                ClusterEvent(pods_on_nodes(handle.rules), ActionType.DELETE),
                node_changes(handle.rules),
                ClusterEvent(PERSISTENT_VOLUME_CLAIM, ActionType.ADD),
            )
        self._statuses = (None, CLAIM_IN_USE if handle.rules.claim_in_use_named else CLAIM_CONFLICT, DISK_CONFLICT)

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Look up the pod's claims; skip Filter if the pod has no disks and none of its claims is in use."""
        volumes = state.volumes
        if volumes is NO_VOLUMES:
            return SKIP
        storage = self.handle.cluster.storage
        once = set()
        for namespace, name in volumes.claims():
            claim = storage.claim(namespace, name)
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{name}" not found')
            if _ONCE in claim.spec.access_modes:
                once.add(name)
        in_use = sum(self._is_in_use(pod.metadata.namespace, name) for name in once)
        if not in_use and not volumes.disks:
            return SKIP
        state[_CLAIMS] = _Claims(frozenset(once), in_use)
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes by their disks, then by claims."""
        if _CLAIMS not in state:
            raise PluginError(f'cannot read "{_CLAIMS}" from cycleState')
        numbers = np.where(self._claims_in_use(state[_CLAIMS], nodes) > 0, 1, 0)
        disks = [used for use in state.volumes.disks for used in _excluded_by(use)]
        if disks:
            numbers[nodes.pods_among(self.handle.cluster.held_volumes.disks.slots(*disks)) > 0] = 2
        return Rejections.per_value(numbers, self._statuses) if numbers.any() else None

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for a deleted pod that had a disk or claim of the pod, a new claim of the pod, and any new node."""
        helps = True
        if is_of_pod(event):
            helps = _shares_volume(pod, only_old(Pod, old, new))
        elif event.resource == PERSISTENT_VOLUME_CLAIM:
            claim = only_new(PersistentVolumeClaim, old, new).metadata
            helps = claim.namespace == pod.metadata.namespace and claim.name in _claim_names(pod)
        return QueueingHint.queue_if(helps)

    def _is_in_use(self, namespace: str, name: str) -> bool:
        cluster = self.handle.cluster
        rows = cluster.pods.row[cluster.held_volumes.claims.slots((namespace, name))]
        return bool(cluster.nodes.exists[rows[rows >= 0]].any())

    def _claims_in_use(self, claims: _Claims, nodes: NodeView) -> NDArray[np.int64]:
        held, pods = self.handle.cluster.held_volumes, self.handle.cluster.pods

        def uses(slots: NDArray[np.intp]) -> NDArray[np.int64]:
            by_slot = np.zeros(len(pods.facts), np.int64)
            for slot in held.claim_names.slots(*claims.names).tolist():
                by_slot[slot] = held.claim_count(slot, claims.names)
            return by_slot[slots]

        return claims.in_use + nodes.added((self.name, claims.names), uses)


def _shares_volume(pod: Pod, other: Pod) -> bool:
    """Whether a pod of the same namespace has a disk that the pod cannot have beside it, or a claim of the pod."""
    if other.metadata.namespace != pod.metadata.namespace:
        return False
    used = {use for volume in other.spec.volumes for use in disk_uses(volume)}
    excluded = {excluded for volume in pod.spec.volumes for use in disk_uses(volume) for excluded in _excluded_by(use)}
    return not used.isdisjoint(excluded) or not _claim_names(pod).isdisjoint(_claim_names(other))


def _claim_names(pod: Pod) -> set[str]:
    sources = [volume.persistent_volume_claim for volume in pod.spec.volumes]
    return {source.claim_name for source in sources if source is not None}


def _excluded_by(use: DiskUse) -> list[DiskUse]:
    """Return how other pods may not use a disk if one uses it so."""
    writing = DiskUse(use.kind, use.disk, read_only=False)
    return [writing] if use.read_only else [writing, DiskUse(use.kind, use.disk, read_only=True)]

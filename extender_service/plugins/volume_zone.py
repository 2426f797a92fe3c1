"""VolumeZone: a pod goes where its volumes are."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.label_columns import ABSENT
from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cluster_event import (
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    ActionType,
    ClusterEvent,
    QueueingHint,
)
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreFilter, Reach
from extender_service.framework.status import SKIP, Rejections, Status, unresolvable
from extender_service.kube.parsing.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from extender_service.kube.types.core import Object, Pod
from extender_service.kube.types.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from extender_service.plugins.shared.event_objects import old_and_new, only_new

CONFLICT = unresolvable("node(s) had no available volume zone")

_TOPOLOGIES = "PreFilterVolumeZone"
_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
# The label's name on nodes that no longer have the beta label.
_CURRENT = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class Topology(msgspec.Struct, frozen=True):
    """A label of a volume, and the values of which a node's must be one."""

    label: str
    values: frozenset[str]


class VolumeZone(PreFilter, Filter):
    """Rejects nodes whose zone or region is not among those that the labels of the pod's bound volumes name."""

    name: ClassVar[str] = "VolumeZone"
    treats_alike: ClassVar[bool] = True
    depends_on_pods: ClassVar[bool] = False
    reach: ClassVar[Reach] = Reach.NONE
    reads: ClassVar[frozenset[type[Object]]] = frozenset({PersistentVolume, PersistentVolumeClaim, StorageClass})
    retry_on: Sequence[ClusterEvent] = (
        ClusterEvent(STORAGE_CLASS, ActionType.ADD),
        ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT),
        ClusterEvent(PERSISTENT_VOLUME_CLAIM, ActionType.ADD | ActionType.UPDATE),
        ClusterEvent(PERSISTENT_VOLUME, ActionType.ADD | ActionType.UPDATE),
    )

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        if handle.rules.hints_compare:
            labelled = ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
            self.retry_on = tuple(labelled if event.resource == NODE else event for event in self.retry_on)

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Collect the zone and region labels of the pod's volumes; skip Filter if there are none."""
        topologies = self._topologies(pod)
        if isinstance(topologies, Status):
            return topologies
        if not topologies:
            return SKIP
        state[_TOPOLOGIES] = topologies
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        """Reject nodes in another zone or region; nodes without any zone or region label pass."""
        topologies = state[_TOPOLOGIES] if _TOPOLOGIES in state else self._topologies(pod)
        if isinstance(topologies, Status):
            return Rejections.where(np.ones(len(nodes), np.bool_), topologies)
        elsewhere = nodes.kept_by_facts(_elsewhere, tuple(topologies))
        return Rejections.where(elsewhere, CONFLICT) if elsewhere.any() else None

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        """Queue for a claim of the pod, a volume that is new or elsewhere now, a class that waits for its pods, and any
        node."""
        helps = True
        if event.resource == STORAGE_CLASS:
            helps = only_new(StorageClass, None, new).volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        elif event.resource == PERSISTENT_VOLUME_CLAIM:
            helps = _is_claimed(pod, only_new(PersistentVolumeClaim, old, new))
        elif event.resource == PERSISTENT_VOLUME:
            before, after = old_and_new(PersistentVolume, old, new)[0], only_new(PersistentVolume, old, new)
            helps = before is None or list(topologies_of(before)) != list(topologies_of(after))
        return QueueingHint.queue_if(helps)

    def _topologies(self, pod: Pod) -> list[Topology] | Status:
        topologies: list[Topology] = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            if not name:
                return unresolvable("PersistentVolumeClaim had no name")
            claim = self.handle.cluster.storage.claim(pod.metadata.namespace, name)
            if claim is None:
                return unresolvable(f'persistentvolumeclaim "{name}" not found')
            bound = self._bound_volume(claim)
            if isinstance(bound, Status):
                return bound
            if bound is not None:
                topologies += topologies_of(bound)
        return topologies

    def _bound_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume | Status | None:
        """Return a claim's volume, None while it waits for its pod, or why there is none."""
        storage = self.handle.cluster.storage
        if claim.spec.volume_name:
            volume = storage.volume(claim.spec.volume_name)
            return volume or unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')
        class_name = claim.class_name
        if not class_name:
            return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
        storage_class = storage.storage_class(class_name)
        if storage_class is None:
            return unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
        if storage_class.volume_binding_mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        waits = storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        return None if waits else unresolvable("PersistentVolume had no name")


def _is_claimed(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    return claim.metadata.namespace == pod.metadata.namespace and any(
        volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name == claim.metadata.name
        for volume in pod.spec.volumes
    )


def topologies_of(volume: PersistentVolume) -> Iterator[Topology]:
    """Yield the zone and region labels of a volume; a malformed label yields nothing."""
    for label in _LABELS:
        if label in volume.metadata.labels:
            values = [value.strip() for value in volume.metadata.labels[label].split(ZONE_DELIMITER)]
            if all(values):
                yield Topology(label, frozenset(values))


def _elsewhere(nodes: NodeView, topologies: tuple[Topology, ...]) -> NDArray[np.bool_]:
    """Tell which nodes say where they are, and that this is not where all volumes are."""
    elsewhere = np.zeros(len(nodes), np.bool_)
    for topology in topologies:
        elsewhere |= ~_is_there(nodes, topology)
    located = np.zeros(len(nodes), np.bool_)
    for label in _LABELS:
        located |= nodes.label(label)[0] != ABSENT
    return elsewhere & located


def _is_there(nodes: NodeView, topology: Topology) -> NDArray[np.bool_]:
    numbers, there = _values_among(nodes, topology.label, topology.values)
    current = _CURRENT.get(topology.label)
    if current is None:
        return there
    return np.where(numbers == ABSENT, _values_among(nodes, current, topology.values)[1], there)


def _values_among(nodes: NodeView, label: str, values: frozenset[str]) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the numbers of the nodes' values of a label, and for which nodes the value is one of these."""
    numbers, column = nodes.label(label)
    wanted = [number for value in values if (number := column.values.number_of(value)) != ABSENT]
    return numbers, np.isin(numbers, wanted)

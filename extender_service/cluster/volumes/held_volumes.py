"""Which volumes the pods hold, and how many are attached to each node."""

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.nodes.volume_support import limit_key
from extender_service.cluster.pods.pod_table import NO_ROW
from extender_service.cluster.pods.pod_volumes import NO_VOLUMES, DiskUse, PodVolumes
from extender_service.cluster.structures.growing_counts import GrowingCounts
from extender_service.cluster.structures.slot_index import SlotIndex
from extender_service.cluster.volumes.attached_volumes import AttachedVolume, AttachedVolumes
from extender_service.cluster.volumes.attachments import Attachment, Dependencies, Fault, attachments
from extender_service.cluster.volumes.storage_table import Storage
from extender_service.kube.parsing.csi_migration import PLUGINS
from extender_service.kube.types.keys import Key


class _Held(msgspec.Struct):
    """The volumes of one pod, and the attachments that they resolve to in the current storage."""

    row: int
    volumes: PodVolumes
    attachments: tuple[Attachment, ...] = ()
    dependencies: tuple[tuple[type, Key], ...] = ()


class HeldVolumes:
    """The volumes of the pods in all slots, kept current with the pods and with storage.

    - `disks`, `claims`, `claim_names`: the slots by what their pods use; claims are those of the pods' choosing, and
      their names are without the namespace
    - `faults`: what is wrong with the volumes of pods, by slot

    With `nodes`, volumes are attached to a node also by VolumeAttachments.
    """

    def __init__(self, storage: Storage, nodes: NodeTable | None = None) -> None:
        self._storage = storage
        self._by_objects = None if nodes is None else AttachedVolumes(storage, nodes)
        self._held: dict[int, _Held] = {}
        self._slots: SlotIndex[Attachment] = SlotIndex()
        self._dependents: SlotIndex[tuple[type, Key]] = SlotIndex()
        self._attached: dict[tuple[str, bool], GrowingCounts] = {}
        self._by_slot: dict[tuple[str, bool], GrowingCounts] = {}
        self._shared = GrowingCounts()
        self._rows: dict[tuple[str, str, bool], Counter[int]] = {}
        self.disks: SlotIndex[DiskUse] = SlotIndex()
        self.claims: SlotIndex[Key] = SlotIndex()
        self.claim_names: SlotIndex[str] = SlotIndex()
        self.faults: dict[int, tuple[Fault, ...]] = {}

    def add(self, slot: int, row: int, volumes: PodVolumes) -> None:
        """Take in a pod that counts on a node row, or on none."""
        if not volumes.attachable and not volumes.disks:
            return
        self._held[slot] = _Held(row, volumes)
        for use in volumes.disks:
            self.disks.add(use, slot)
        for claim in volumes.claims():
            self.claims.add(claim, slot)
            self.claim_names.add(claim[1], slot)
        self._resolve(slot)

    def remove(self, slot: int) -> None:
        """Forget a pod."""
        if slot not in self._held:
            return
        self._unresolve(slot)
        volumes = self._held.pop(slot).volumes
        for use in volumes.disks:
            self.disks.discard(use, slot)
        for claim in volumes.claims():
            self.claims.discard(claim, slot)
            self.claim_names.discard(claim[1], slot)

    def sizes(self) -> dict[str, int]:
        """How many entries each table has, by its name."""
        return {
            "holders": len(self._held),
            "attachments": len(self._slots),
            "dependencies": len(self._dependents),
            "limits": len(self._attached) + len(self._by_slot),
            "shared": len(self._rows),
            "disks": len(self.disks),
            "claims": len(self.claims),
            "claim_names": len(self.claim_names),
            "faults": len(self.faults),
            "attached": 0 if self._by_objects is None else len(self._by_objects),
        }

    def of(self, slot: int) -> PodVolumes:
        """The volumes of the pod in a slot."""
        held = self._held.get(slot)
        return NO_VOLUMES if held is None else held.volumes

    def slots(self) -> list[int]:
        """The slots of the pods that hold volumes."""
        return list(self._held)

    def refresh(self, kind: type, key: Key) -> None:
        """Look again at the pods whose volumes depend on an object that has changed."""
        for slot in self._dependents.slots((kind, key)).tolist():
            self._unresolve(slot)
            self._resolve(slot)
        if self._by_objects is not None:
            for volume, sign in self._by_objects.refresh(kind, key):
                self._count_attached(volume, sign)

    def stays_attached(self, row: int, driver: str, handle: str) -> bool:
        """Return whether a volume is attached to the node of a row without a pod there, by a VolumeAttachment."""
        return self._by_objects is not None and AttachedVolume(row, driver, handle) in self._by_objects

    def attached(self, key: str, *, migrated: bool) -> NDArray[np.int64]:
        """How many volumes of a `limit_key` are attached, by node row: those that pods there hold, and those that
        VolumeAttachments attach. Rows beyond the end have none.

        With `migrated`, in-tree volumes that a CSI driver took over count, too.
        """
        return self._attached.get((key, migrated), _NOTHING).array

    def volume_counts(self, slots: NDArray[np.intp], key: str, *, migrated: bool) -> NDArray[np.int64]:
        """How many volumes of a `limit_key` the pods in these slots hold, each of them: without those that stay
        attached to the pod's node."""
        return self._by_slot.get((key, migrated), _NOTHING).at(slots)

    def share(self, slots: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of the pods in these slots hold a volume that another pod holds, too."""
        return self._shared.at(slots) > 0

    def holders(self, driver: str, handle: str, *, migrated: bool) -> NDArray[np.intp]:
        """The slots of the pods that hold a volume; with `migrated`, also those that name it as an in-tree volume."""
        return self._slots.slots(*_names_of(driver, handle, migrated=migrated))

    def held_by(self, slot: int, key: str, *, migrated: bool) -> set[tuple[str, str]]:
        """Driver and handle of the volumes of a `limit_key` that the pod in a slot holds."""
        held = self._held.get(slot)
        return {
            (item.driver, item.handle)
            for item in (() if held is None else held.attachments)
            if limit_key(item.driver) == key and (migrated or not item.plugin)
        }

    def claim_count(self, slot: int, names: frozenset[str]) -> int:
        """How often the pod in a slot uses claims of some names."""
        held = self._held.get(slot)
        return 0 if held is None else sum(name in names for _, name in held.volumes.claims())

    def _resolve(self, slot: int) -> None:
        held = self._held[slot]
        dependencies: Dependencies = set()
        found = list(attachments(self._storage, held.volumes, dependencies))
        held.attachments = tuple({item: None for item in found if isinstance(item, Attachment)})
        held.dependencies = tuple(dependencies)
        # kube-scheduler does not mind a running pod whose claim is gone.
        faults = tuple(item for item in found if isinstance(item, Fault) and not item.is_missing)
        if faults:
            self.faults[slot] = faults
        for dependency in held.dependencies:
            self._dependents.add(dependency, slot)
        for attachment in held.attachments:
            self._count(attachment, slot, held.row, 1)
            self._slots.add(attachment, slot)

    def _unresolve(self, slot: int) -> None:
        held = self._held[slot]
        self.faults.pop(slot, None)
        for dependency in held.dependencies:
            self._dependents.discard(dependency, slot)
        for attachment in held.attachments:
            self._slots.discard(attachment, slot)
            self._count(attachment, slot, held.row, -1)

    def _count(self, attachment: Attachment, slot: int, row: int, sign: int) -> None:
        """Count a volume that a pod now holds (sign 1), or no longer holds (-1)."""
        for migrated in (True,) if attachment.plugin else (False, True):
            others = self._slots.holders(*_names_of(attachment.driver, attachment.handle, migrated=migrated))
            if slot in others:
                continue
            key = (limit_key(attachment.driver), migrated)
            volume = (attachment.driver, attachment.handle, migrated)
            is_alone = self._is_alone_on(row, volume, others, sign)
            if not self.stays_attached(row, attachment.driver, attachment.handle):
                _add(self._by_slot, key, slot, sign)
                if is_alone and row != NO_ROW:
                    _add(self._attached, key, row, sign)
            if migrated and others:
                self._shared.add(slot, sign)
                if len(others) == 1:
                    self._shared.add(next(iter(others)), sign)

    def _count_attached(self, volume: AttachedVolume, sign: int) -> None:
        """Count a volume that a VolumeAttachment now attaches (sign 1), or none does any longer (-1)."""
        for migrated in (False, True):
            key = (limit_key(volume.driver), migrated)
            holders = self._slots.holders(*_names_of(volume.driver, volume.handle, migrated=migrated))
            here = [slot for slot in holders if self._held[slot].row == volume.row]
            for slot in here:
                _add(self._by_slot, key, slot, -sign)
            if not here:
                _add(self._attached, key, volume.row, sign)

    def _is_alone_on(self, row: int, volume: tuple[str, str, bool], others: AbstractSet[int], sign: int) -> bool:
        """Return whether no other holder of a volume is on a row; the rows of shared volumes are counted."""
        if not others:
            return True
        if sign > 0 and len(others) == 1:
            self._rows[volume] = Counter([self._held[next(iter(others))].row])
        rows = self._rows[volume]
        rows[row] += sign
        if sign < 0 and len(others) == 1:
            del self._rows[volume]
        return rows[row] == max(sign, 0)


_NOTHING = GrowingCounts()


def _add(counts: dict[tuple[str, bool], GrowingCounts], key: tuple[str, bool], number: int, sign: int) -> None:
    """Count up or down; a key whose total reaches zero is removed."""
    of_key = counts.setdefault(key, GrowingCounts())
    of_key.add(number, sign)
    if not of_key.total:
        del counts[key]


def _names_of(driver: str, handle: str, *, migrated: bool) -> Iterator[Attachment]:
    """All ways in which a pod may name a volume."""
    yield Attachment(driver, handle)
    if migrated and driver in PLUGINS:
        yield Attachment(driver, handle, PLUGINS[driver])

"""Which volumes VolumeAttachments attach to nodes, whether a pod there has them or not."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.volumes.storage_table import Storage
from extender_service.kube.types.keys import Key
from extender_service.kube.types.storage import PersistentVolume, VolumeAttachment


class AttachedVolume(NamedTuple):
    """A volume on the node of a row, as its driver identifies it."""

    row: int
    driver: str
    handle: str


class _Resolved(NamedTuple):
    """What an object names, and the volume that this is in the current storage; None for none that counts."""

    row: int
    volume_name: str
    volume: AttachedVolume | None


class AttachedVolumes:
    """The volumes that VolumeAttachments attach, kept current with storage (getNodeVolumeAttachmentInfo in
    plugins/nodevolumelimits/csi.go).

    The object counts from when it is there until it is gone, whatever its status. Volumes that are not of CSI do not
    count. The row of a node is held as long as an object names the node.
    """

    def __init__(self, storage: Storage, nodes: NodeTable) -> None:
        self._storage = storage
        self._nodes = nodes
        self._resolved: dict[Key, _Resolved] = {}
        self._objects_of: dict[str, set[Key]] = {}
        self._attached: Counter[AttachedVolume] = Counter()

    def __len__(self) -> int:
        return len(self._resolved)

    def __contains__(self, volume: AttachedVolume) -> bool:
        return volume in self._attached

    def refresh(self, kind: type, key: Key) -> Iterator[tuple[AttachedVolume, int]]:
        """Look again at the objects that depend on one that has changed.

        Yields the volumes that are now attached (with 1) and those that no longer are (-1). At each of them, this table
        is as it is after that change.
        """
        if kind is VolumeAttachment:
            yield from self._forget(key)
            yield from self._resolve(key)
        elif kind is PersistentVolume:
            for each in sorted(self._objects_of.get(key[1], ())):
                yield from self._forget(each)
                yield from self._resolve(each)

    def _resolve(self, key: Key) -> Iterator[tuple[AttachedVolume, int]]:
        item = self._storage.find(VolumeAttachment, key)
        if item is None or not item.spec.node_name:
            return
        spec, name = item.spec, item.spec.source.persistent_volume_name
        row = self._nodes.hold_row(spec.node_name)
        volume = self._storage.find(PersistentVolume, ("", name))
        attached = None
        if volume is not None and volume.spec.csi is not None and spec.attacher:
            attached = AttachedVolume(row, spec.attacher, volume.spec.csi.volume_handle)
        self._resolved[key] = _Resolved(row, name, attached)
        self._objects_of.setdefault(name, set()).add(key)
        if attached is not None:
            self._attached[attached] += 1
            if self._attached[attached] == 1:
                yield attached, 1

    def _forget(self, key: Key) -> Iterator[tuple[AttachedVolume, int]]:
        known = self._resolved.pop(key, None)
        if known is None:
            return
        objects = self._objects_of[known.volume_name]
        objects.discard(key)
        if not objects:
            del self._objects_of[known.volume_name]
        if known.volume is not None:
            self._attached[known.volume] -= 1
            if not self._attached[known.volume]:
                del self._attached[known.volume]
                yield known.volume, -1
        self._nodes.release_row(known.row)

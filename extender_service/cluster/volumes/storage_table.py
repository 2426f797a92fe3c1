"""Volumes, claims and what else is known of storage."""

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, TypeVar, cast

import msgspec

from extender_service.cluster.structures.shown_kinds import ShownKinds
from extender_service.cluster.volumes.free_volumes import FreeVolumes, free_volume
from extender_service.kube.parsing.quantities import parse_quantity, whole_value
from extender_service.kube.parsing.selectors import Selector, SelectorError, parse_label_selector
from extender_service.kube.types.keys import Key, key_of
from extender_service.kube.types.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

T = TypeVar(
    "T",
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
)
A = TypeVar("A", PersistentVolume, PersistentVolumeClaim)

StorageObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)
F = TypeVar("F", bound=StorageObject)
Assumable = PersistentVolume | PersistentVolumeClaim
STORAGE: tuple[type[StorageObject], ...] = (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
)


class OutOfSyncError(Exception):
    """What is to be assumed follows from an object as it was `seen`, and by now it is `known` as another, or is gone
    (None)."""

    def __init__(self, seen: Assumable, known: Assumable | None) -> None:
        super().__init__(f"{type(seen).__name__} {'/'.join(filter(None, key_of(seen)))} is out of sync")
        self.seen = seen
        self.known = known


class Capacity(msgspec.Struct, frozen=True):
    """The largest volume that can be made on the nodes of a part of the cluster, and what is left there, in bytes."""

    most_bytes: int
    capacity_bytes: int
    topology: Selector


class Storage:
    """Objects by type, namespace and name; the namespace of cluster-scoped objects is empty.

    A volume or a claim may be assumed to be as it is about to be written, until the watch shows it changed
    (util/assumecache). That shows in `latest` and in `free_volumes`, which are those that claims can be bound to;
    everything else is what the watch says. `change_count` grows with every change of either. `show_only` hides kinds
    that nothing keeps current.
    """

    def __init__(self) -> None:
        self.change_count = 0
        self._objects: dict[type, dict[Key, Any]] = {kind: {} for kind in STORAGE}
        self._shown: ShownKinds[dict[Key, Any]] = ShownKinds(self._objects)
        self._assumed: dict[type, dict[Key, Assumable]] = {PersistentVolume: {}, PersistentVolumeClaim: {}}
        self._capacities: dict[str, dict[Key, Capacity]] = {}
        self.free_volumes = FreeVolumes()

    def __iter__(self) -> Iterator[StorageObject]:
        for objects in self._objects.values():
            yield from objects.values()

    def show_only(self, kinds: Container[type]) -> None:
        """Hide all kinds but these from now on."""
        self._shown = ShownKinds((kind, objects) for kind, objects in self._objects.items() if kind in kinds)

    def of(self, kind: type[T]) -> Mapping[Key, T]:
        """All objects of a type. Raises HiddenKindError, as `claim`, `volume`, `storage_class` and `driver` do."""
        return self._shown[kind]

    def find(self, kind: type[F], key: Key) -> F | None:
        """Return an object, None if there is none, also of a kind that is hidden."""
        found: F | None = self._objects[kind].get(key)
        return found

    def apply(self, item: StorageObject) -> None:
        """Add or update an object. Raises QuantityError for a malformed quantity, and changes nothing then."""
        key = key_of(item)
        if key in self._assumed.get(type(item), ()) and self._objects[type(item)][key] == item:
            return  # listed once more
        free = free_volume(item) if isinstance(item, PersistentVolume) else None
        capacity = _capacity(item) if isinstance(item, CSIStorageCapacity) else None
        self.remove(type(item), key)
        self._objects[type(item)][key] = item
        if free is not None:
            self.free_volumes.add(free)
        if capacity is not None and isinstance(item, CSIStorageCapacity):
            self._capacities.setdefault(item.storage_class_name, {})[key] = capacity

    def remove(self, kind: type[StorageObject], key: Key) -> None:
        """Forget an object."""
        self.change_count += 1
        item = self._objects[kind].pop(key, None)
        self._assumed.get(kind, {}).pop(key, None)
        if isinstance(item, PersistentVolume):
            self.free_volumes.remove(item.metadata.name)
        elif isinstance(item, CSIStorageCapacity):
            of_class = self._capacities.get(item.storage_class_name, {})
            of_class.pop(key, None)
            if not of_class:
                self._capacities.pop(item.storage_class_name, None)

    def assume(self, seen: A, assumed: A) -> None:
        """Take an object, the latest of which was `seen`, for what is about to be written.

        Raises OutOfSyncError if it is another by now.
        """
        kind, key = type(seen), key_of(seen)
        known = self._assumed[kind].get(key, self._objects[kind].get(key))
        if known is not seen:
            raise OutOfSyncError(seen, known)
        self.change_count += 1
        self._assumed[kind][key] = assumed
        self._refresh_free(assumed)

    def restore(self, assumed: Assumable) -> None:
        """Go back to what the watch says, if this is still what is assumed."""
        kind, key = type(assumed), key_of(assumed)
        if self._assumed[kind].get(key) is assumed:
            self.change_count += 1
            del self._assumed[kind][key]
            self._refresh_free(self._objects[kind][key])

    def latest(self, item: A) -> A:
        """Return what an object is assumed to be; the object itself, if nothing is assumed of it."""
        assumed = self._assumed[type(item)].get(key_of(item), item)
        return cast(A, assumed)

    def sizes(self) -> dict[str, int]:
        """How many entries each table has, by its name."""
        return {
            "objects": sum(map(len, self._objects.values())),
            "assumed": sum(map(len, self._assumed.values())),
            "capacity_classes": len(self._capacities),
            "capacities": sum(map(len, self._capacities.values())),
            **self.free_volumes.sizes(),
        }

    def keys(self, kind: type[StorageObject]) -> list[Key]:
        """The keys of all objects of a type."""
        return list(self._objects[kind])

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return a claim, None if there is none."""
        return self.of(PersistentVolumeClaim).get((namespace, name))

    def volume(self, name: str) -> PersistentVolume | None:
        """Return a volume, None if there is none."""
        return self.of(PersistentVolume).get(("", name))

    def storage_class(self, name: str) -> StorageClass | None:
        """Return a storage class, None if there is none."""
        return self.of(StorageClass).get(("", name))

    def driver(self, name: str) -> CSIDriver | None:
        """Return a CSI driver, None if there is none."""
        return self.of(CSIDriver).get(("", name))

    def capacities(self, class_name: str) -> Iterable[Capacity]:
        """What can still be made of a storage class, and where."""
        return self._capacities.get(class_name, {}).values()

    def _refresh_free(self, item: Assumable) -> None:
        if isinstance(item, PersistentVolume):
            self.free_volumes.remove(item.metadata.name)
            free = free_volume(item)
            if free is not None:
                self.free_volumes.add(free)


def _capacity(item: CSIStorageCapacity) -> Capacity | None:
    """Read what an object says is left; None where it says nothing, or of no nodes (nodeHasAccess in binder.go)."""
    limit = item.capacity if item.maximum_volume_size is None else item.maximum_volume_size
    if limit is None or item.node_topology is None:
        return None
    most_bytes, capacity_bytes = (whole_value(parse_quantity(amount)) for amount in (limit, item.capacity or 0))
    try:
        return Capacity(most_bytes, capacity_bytes, parse_label_selector(item.node_topology))
    except SelectorError:
        return None

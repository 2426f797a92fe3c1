"""Volumes, claims and what else is known of storage."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from extender_service.cluster.free_volumes import FreeVolumes, free_volume
from extender_service.kube.quantity import parse_quantity, whole_value
from extender_service.kube.resources import Key, key_of
from extender_service.kube.selectors import Selector, SelectorError, parse_label_selector
from extender_service.kube.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

T = TypeVar("T", PersistentVolume, PersistentVolumeClaim, StorageClass, CSINode, CSIDriver, CSIStorageCapacity)

StorageObject = PersistentVolume | PersistentVolumeClaim | StorageClass | CSINode | CSIDriver | CSIStorageCapacity
STORAGE: tuple[type[StorageObject], ...] = (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
)


class Capacity(msgspec.Struct, frozen=True):
    """The largest volume, in bytes, that can be made on the nodes of a part of the cluster."""

    most_bytes: int
    topology: Selector


class Storage:
    """Objects by type, namespace and name; the namespace of cluster-scoped objects is empty.

    `free_volumes` are those that claims can be bound to.
    """

    def __init__(self) -> None:
        self._objects: dict[type, dict[Key, Any]] = {kind: {} for kind in STORAGE}
        self._capacities: dict[str, dict[Key, Capacity]] = {}
        self.free_volumes = FreeVolumes()

    def of(self, kind: type[T]) -> Mapping[Key, T]:
        """All objects of a type."""
        return self._objects[kind]

    def apply(self, item: StorageObject) -> None:
        """Add or update an object. Raises QuantityError for a malformed quantity, and changes nothing then."""
        key = key_of(item)
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
        item = self._objects[kind].pop(key, None)
        if isinstance(item, PersistentVolume):
            self.free_volumes.remove(item.metadata.name)
        elif isinstance(item, CSIStorageCapacity):
            self._capacities.get(item.storage_class_name, {}).pop(key, None)

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


def _capacity(item: CSIStorageCapacity) -> Capacity | None:
    """Read what an object says is left; None where it says nothing, or of no nodes (nodeHasAccess in binder.go)."""
    limit = item.capacity if item.maximum_volume_size is None else item.maximum_volume_size
    if limit is None or item.node_topology is None:
        return None
    most_bytes = whole_value(parse_quantity(limit))
    try:
        return Capacity(most_bytes, parse_label_selector(item.node_topology))
    except SelectorError:
        return None

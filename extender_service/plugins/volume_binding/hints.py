"""Whether a change helps a pod that waits for its volumes (isSchedulableAfter… in the reference)."""

from extender_service.kube.parsing.csi_migration import MIGRATED_ANNOTATION
from extender_service.kube.parsing.quantities import parse_quantity, whole_value
from extender_service.kube.types.core import Pod
from extender_service.kube.types.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from extender_service.plugins.shared.event_objects import old_and_new, only_new, only_old
from extender_service.plugins.shared.pod_claims import is_claim_of


def helps_after_claim_change(pod: Pod, old: object, new: object) -> bool:
    """Return whether the claim is one of the pod's, also of an ephemeral volume."""
    return is_claim_of(pod, only_new(PersistentVolumeClaim, old, new))


def helps_after_class_change(_pod: Pod, old: object, new: object) -> bool:
    """Return whether the storage class is new, or allows other topologies."""
    before, after = old_and_new(StorageClass, old, new)[0], only_new(StorageClass, old, new)
    return before is None or before.allowed_topologies != after.allowed_topologies


def helps_after_csi_node_change(_pod: Pod, old: object, new: object) -> bool:
    """Return whether the CSINode is new, or other in-tree plugins are migrated on its node."""
    if old is None:
        return True
    before, after = old_and_new(CSINode, old, new)[0], only_new(CSINode, old, new)
    return before is not None and _migrated(before) != _migrated(after)


def _migrated(csi_node: CSINode) -> str:
    return csi_node.metadata.annotations.get(MIGRATED_ANNOTATION, "")


def helps_after_capacity_change(_pod: Pod, old: object, new: object) -> bool:
    """Return whether the capacity is new, or has room for larger volumes. Raises QuantityError."""
    before, after = old_and_new(CSIStorageCapacity, old, new)[0], only_new(CSIStorageCapacity, old, new)
    if before is None:
        return True
    old_limit, new_limit = _limit(before), _limit(after)
    return new_limit is not None and (old_limit is None or new_limit > old_limit)


def helps_after_driver_change(pod: Pod, old: object, new: object) -> bool:
    """Return whether the driver of an inline volume no longer publishes capacities. Volumes of claims do not count."""
    before, after = only_old(CSIDriver, old, new), only_new(CSIDriver, old, new)
    if not any(volume.csi is not None and volume.csi.driver == after.metadata.name for volume in pod.spec.volumes):
        return False
    return before.spec.storage_capacity and not after.spec.storage_capacity


def _limit(capacity: CSIStorageCapacity) -> int | None:
    """Return the largest volume in bytes, None if the driver does not say."""
    raw = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    return None if raw is None else whole_value(parse_quantity(raw))

"""What nodes can do with volumes: few distinct answers for many nodes."""

import hashlib
from collections.abc import Mapping

import msgspec

from extender_service.caches import cached
from extender_service.kube.parsing.csi_migration import FOLLOWED, MIGRATED_ANNOTATION, PORTWORX
from extender_service.kube.types.storage import CSINode

_LIMIT_PREFIX = "attachable-volumes-"
_CSI_LIMIT_PREFIX = "attachable-volumes-csi-"
_LONGEST_RESOURCE_NAME = 63


class VolumeSupport(msgspec.Struct, frozen=True):
    """What a node, and its CSINode if it has one, say of volumes.

    - `migrated`: in-tree plugins that the CSINode lists as migrated to CSI
    - `limits`: how many volumes can be attached, by `limit_key`; `driver_limits` are those that the CSINode gives
    - `drivers`: the CSI drivers that are installed
    """

    has_csi_node: bool = False
    migrated: frozenset[str] = frozenset()
    limits: tuple[tuple[str, int], ...] = ()
    driver_limits: tuple[tuple[str, int], ...] = ()
    drivers: frozenset[str] = frozenset()

    def counts(self, plugin: str, *, portworx_migrated: bool = False) -> bool:
        """Return whether in-tree volumes of a plugin count as their driver's (isCSIMigrationOn in nodevolumelimits).

        Those of Portworx count only where the CSINode lists them, unless `portworx_migrated` says so of all.
        """
        if not self.has_csi_node or plugin not in FOLLOWED:
            return False
        return plugin != PORTWORX or portworx_migrated or plugin in self.migrated

    def limit(self, key: str) -> int | None:
        """How many volumes of a `limit_key` can be attached; None for any number."""
        return next((limit for name, limit in self.limits if name == key), None)

    def driver_limit(self, key: str) -> int | None:
        """Like `limit`, if the CSINode gives it."""
        return next((limit for name, limit in self.driver_limits if name == key), None)


@cached("attachment limits", most_entries=512, most_entry_bytes=2 << 10, most_size=253)
def limit_key(driver: str) -> str:
    """Return the resource name that stands for a driver's limit (GetCSIAttachLimitKey in pkg/volume/util)."""
    if len(_CSI_LIMIT_PREFIX) + len(driver) < _LONGEST_RESOURCE_NAME:
        return _CSI_LIMIT_PREFIX + driver
    digest = hashlib.sha1(driver.encode(), usedforsecurity=False).hexdigest()
    return _CSI_LIMIT_PREFIX + driver[:23] + digest[:16]


def volume_support(allocatable: Mapping[str, int], csi_node: CSINode | None) -> VolumeSupport:
    """Put together what a node's allocatable amounts and its CSINode say; the CSINode's limits take precedence."""
    limits = {name: amount for name, amount in allocatable.items() if name.startswith(_LIMIT_PREFIX)}
    if csi_node is None:
        return VolumeSupport(limits=tuple(sorted(limits.items())))
    of_drivers = {
        limit_key(driver.name): driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
    migrated = csi_node.metadata.annotations.get(MIGRATED_ANNOTATION, "")
    plugins = frozenset(filter(None, migrated.split(",")))
    both = limits | of_drivers
    return VolumeSupport(
        has_csi_node=True,
        migrated=plugins,
        limits=tuple(sorted(both.items())),
        driver_limits=tuple(sorted(of_drivers.items())),
        drivers=frozenset(driver.name for driver in csi_node.spec.drivers),
    )

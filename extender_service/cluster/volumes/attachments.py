"""The volumes of a pod as the drivers see them that attach them to nodes."""

from collections.abc import Iterator

import msgspec

from extender_service.cluster.pods.pod_volumes import InTreeUse, PodVolumes
from extender_service.cluster.volumes.storage_table import Storage
from extender_service.kube.parsing.csi_migration import (
    DRIVERS,
    FOLLOWED,
    TranslationError,
    in_tree_plugin,
    translate_volume,
)
from extender_service.kube.types.keys import Key
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

# No driver calls a volume so: the handle of one that is not there yet.
_TO_BE_MADE = "to be made for "


class Attachment(msgspec.Struct, frozen=True, gc=False):
    """A volume that a driver attaches; where `plugin` is set, only on nodes where that in-tree plugin is migrated."""

    driver: str
    handle: str
    plugin: str = ""


class Fault(msgspec.Struct, frozen=True):
    """Why a pod's volume cannot be judged, on nodes where `plugin` is migrated (empty: on all nodes)."""

    text: str
    plugin: str = ""
    is_missing: bool = False


Dependencies = set[tuple[type, Key]]
"""Objects, there or not, that an answer follows from."""


def attachments(storage: Storage, volumes: PodVolumes, dependencies: Dependencies) -> Iterator[Attachment | Fault]:
    """Iterate over a pod's volumes as their drivers see them, and what is wrong with others, in the pod's order.

    What the answer follows from is added to `dependencies`. The source is filterAttachableVolumes in
    plugins/nodevolumelimits/csi.go.
    """
    for use in volumes.attachable:
        if isinstance(use, InTreeUse):
            if use.volume is not None:
                yield Attachment(use.volume.driver, use.volume.handle, use.plugin)
            elif use.fault:
                yield Fault(use.fault, use.plugin)
            continue
        namespace, name = use.key
        if not name:
            yield Fault("PersistentVolumeClaim had no name")
            continue
        dependencies.add((PersistentVolumeClaim, use.key))
        claim = storage.find(PersistentVolumeClaim, use.key)
        if claim is None:
            missing = f'looking up PVC {namespace}/{name}: persistentvolumeclaim "{name}" not found'
            yield Fault(missing, is_missing=True)
        elif fault := use.ownership_fault(claim):
            yield Fault(fault)
        elif attachment := _attachment_of(storage, claim, dependencies):
            yield attachment


def _attachment_of(storage: Storage, claim: PersistentVolumeClaim, dependencies: Dependencies) -> Attachment | None:
    """Return the volume of a claim, or the one that will be made for it; None for one that does not count."""
    if claim.spec.volume_name:
        dependencies.add((PersistentVolume, ("", claim.spec.volume_name)))
        volume = storage.find(PersistentVolume, ("", claim.spec.volume_name))
        if volume is not None:
            return _attachment_of_volume(volume)
    if not claim.class_name:
        return None
    dependencies.add((StorageClass, ("", claim.class_name)))
    storage_class = storage.find(StorageClass, ("", claim.class_name))
    if storage_class is None or not storage_class.provisioner:
        return None
    handle = f"{_TO_BE_MADE}{claim.metadata.namespace}/{claim.metadata.name}"
    provisioner = storage_class.provisioner
    if provisioner not in DRIVERS:
        return Attachment(provisioner, handle)
    return Attachment(DRIVERS[provisioner], handle, provisioner) if provisioner in FOLLOWED else None


def _attachment_of_volume(volume: PersistentVolume) -> Attachment | None:
    if volume.spec.csi is not None:
        driver, handle, plugin = volume.spec.csi.driver, volume.spec.csi.volume_handle, ""
    else:
        plugin = in_tree_plugin(volume.spec)
        if plugin not in FOLLOWED:
            return None
        try:
            translated = translate_volume(volume, plugin)
        except TranslationError:
            return None
        driver, handle = translated.driver, translated.handle
    return Attachment(driver, handle, plugin) if driver and handle else None

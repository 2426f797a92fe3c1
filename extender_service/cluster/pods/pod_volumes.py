"""The volumes of a pod that matter to other pods or to volume limits."""

from typing import NamedTuple

import msgspec
from msgspec import structs

from extender_service.kube.parsing.csi_migration import (
    AZURE_DISK,
    AZURE_FILE,
    CINDER,
    EBS,
    FOLLOWED,
    GCE_PD,
    PORTWORX,
    VSPHERE,
    CSIVolume,
    TranslationError,
    in_tree_disk,
    in_tree_plugin,
    translate,
)
from extender_service.kube.types.core import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    AzureDisk,
    GCEPersistentDisk,
    PersistentVolumeClaimSource,
    Source,
    Volume,
    VolumeID,
)
from extender_service.kube.types.keys import Key
from extender_service.kube.types.storage import PersistentVolumeClaim
from extender_service.kube.types.watched_pods import AnyPod


class DiskUse(NamedTuple):
    """A disk that is mounted without a claim, and how."""

    kind: str
    disk: tuple[str, ...]
    read_only: bool


class ClaimUse(msgspec.Struct, frozen=True, gc=False):
    """A claim that is mounted. That of an ephemeral volume must be owned by the pod, whose UID and name it then has."""

    key: Key
    pod_uid: str = ""
    pod_name: str = ""

    @property
    def is_ephemeral(self) -> bool:
        """Whether the claim is made for this pod alone."""
        return bool(self.pod_name)

    def ownership_fault(self, claim: PersistentVolumeClaim) -> str:
        """Describe the fault if the claim was not made for this pod's ephemeral volume (ephemeral.VolumeIsForPod)."""
        if not self.is_ephemeral:
            return ""
        owner = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
        if owner is not None and owner.uid == self.pod_uid:
            return ""
        namespace, name = self.key
        return f"PVC {namespace}/{name} was not created for pod {namespace}/{self.pod_name} (pod is not owner)"


class InTreeUse(msgspec.Struct, frozen=True, gc=False):
    """A volume without a claim that is attached by a CSI driver where `plugin` is migrated; or why it cannot be.

    `disk` is its ID where `plugin` is not migrated (in_tree_disk).
    """

    plugin: str
    volume: CSIVolume | None
    disk: str = ""
    fault: str = ""


class PodVolumes(msgspec.Struct, frozen=True, gc=False):
    """The volumes of a pod: those that may be attached, in the pod's order, and disks without a claim."""

    attachable: tuple[ClaimUse | InTreeUse, ...] = ()
    disks: tuple[DiskUse, ...] = ()

    def claims(self) -> list[Key]:
        """Claims of the pod's choosing, in the pod's order; one may be listed twice."""
        return [use.key for use in self.attachable if isinstance(use, ClaimUse) and not use.is_ephemeral]

    def shown(self) -> tuple[Volume, ...]:
        """Return volumes without names like those of the pod: of the same disks, claims and in-tree plugins."""
        attached = [_shown_attachable(use) for use in self.attachable if not _is_disk(use)]
        return (*map(_shown_disk, self.disks), *attached)


NO_VOLUMES = PodVolumes()

# All fields of a volume except its name; one that is not None is its source.
_SOURCES = len(Volume.__struct_fields__) - 1


def volumes_that_matter(pod: AnyPod) -> list[Volume]:
    """Return the volumes of a pod from sources that scheduling reads; nearly all are of others."""
    return [volume for volume in pod.spec.volumes if structs.astuple(volume).count(None) != _SOURCES]


def pod_volumes(pod: AnyPod) -> PodVolumes:
    """Take from a pod what it holds in volumes."""
    volumes = volumes_that_matter(pod)
    if not volumes:
        return NO_VOLUMES
    attachable = [use for volume in volumes if (use := _attachable(pod, volume)) is not None]
    disks = [use for volume in volumes for use in disk_uses(volume)]
    return PodVolumes(tuple(attachable), tuple(disks)) if attachable or disks else NO_VOLUMES


def _attachable(pod: AnyPod, volume: Volume) -> ClaimUse | InTreeUse | None:
    metadata = pod.metadata
    if volume.persistent_volume_claim is not None:
        return ClaimUse((metadata.namespace, volume.persistent_volume_claim.claim_name))
    if volume.ephemeral is not None:
        return ClaimUse((metadata.namespace, f"{metadata.name}-{volume.name}"), metadata.uid, metadata.name)
    plugin = in_tree_plugin(volume)
    if not plugin:
        return None
    if plugin not in FOLLOWED:
        return InTreeUse(plugin, None)
    disk = in_tree_disk(volume)
    try:
        return InTreeUse(plugin, translate(volume, plugin), disk)
    except TranslationError as error:
        return InTreeUse(plugin, None, disk, f"converting volume({volume.name}) from inline to csi: {error}")


def disk_uses(volume: Volume) -> list[DiskUse]:
    """Return the disks that a volume stands for: an RBD image is one per monitor, any of which makes it the same."""
    uses = []
    if volume.gce_persistent_disk is not None:
        disk = volume.gce_persistent_disk
        uses.append(DiskUse("gce", (disk.pd_name,), disk.read_only))
    if volume.aws_elastic_block_store is not None:
        # No two pods may have it, whatever they do with it.
        uses.append(DiskUse("ebs", (volume.aws_elastic_block_store.volume_id,), read_only=False))
    if volume.iscsi is not None:
        uses.append(DiskUse("iscsi", (volume.iscsi.iqn,), volume.iscsi.read_only))
    if volume.rbd is not None:
        rbd = volume.rbd
        uses += [DiskUse("rbd", (rbd.pool, rbd.image, monitor), rbd.read_only) for monitor in rbd.monitors]
    return uses


def _is_disk(use: ClaimUse | InTreeUse) -> bool:
    """Return whether a volume is a disk, too."""
    return isinstance(use, InTreeUse) and use.plugin in (EBS, GCE_PD)


def _shown_disk(use: DiskUse) -> Volume:
    match use.kind:
        case "gce":
            return Volume(gce_persistent_disk=GCEPersistentDisk(use.disk[0], use.read_only))
        case "ebs":
            return Volume(aws_elastic_block_store=AWSElasticBlockStore(use.disk[0]))
        case "iscsi":
            return Volume(iscsi=ISCSI(use.disk[0], use.read_only))
        case _:
            pool, image, monitor = use.disk
            return Volume(rbd=RBD((monitor,), pool, image, use.read_only))


def _shown_attachable(use: ClaimUse | InTreeUse) -> Volume:
    if isinstance(use, InTreeUse):
        return _OF_PLUGIN[use.plugin]
    if use.is_ephemeral:
        return Volume(ephemeral=Source())
    return Volume(persistent_volume_claim=PersistentVolumeClaimSource(use.key[1]))


_OF_PLUGIN = {
    AZURE_DISK: Volume(azure_disk=AzureDisk()),
    AZURE_FILE: Volume(azure_file=Source()),
    CINDER: Volume(cinder=VolumeID()),
    PORTWORX: Volume(portworx_volume=VolumeID()),
    VSPHERE: Volume(vsphere_volume=Source()),
}

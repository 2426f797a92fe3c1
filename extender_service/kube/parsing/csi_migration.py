"""Translation of in-tree volumes to those of the CSI drivers that replaced them (k8s.io/csi-translation-lib).

Only the parts that scheduling needs: the driver, the volume handle and the node affinity.
"""

import re
from operator import attrgetter
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import structs

from extender_service.kube.types.core import (
    AzureDisk,
    InTreeSources,
    NodeSelector,
    NodeSelectorTerm,
    SelectorRequirement,
)
from extender_service.kube.types.storage import PersistentVolume

EBS = "kubernetes.io/aws-ebs"
GCE_PD = "kubernetes.io/gce-pd"
AZURE_DISK = "kubernetes.io/azure-disk"
AZURE_FILE = "kubernetes.io/azure-file"
CINDER = "kubernetes.io/cinder"
PORTWORX = "kubernetes.io/portworx-volume"
VSPHERE = "kubernetes.io/vsphere-volume"

# CSI drivers, by the in-tree plugin that each replaced.
DRIVERS = {
    EBS: "ebs.csi.aws.com",
    GCE_PD: "pd.csi.storage.gke.io",
    AZURE_DISK: "disk.csi.azure.com",
    AZURE_FILE: "file.csi.azure.com",
    CINDER: "cinder.csi.openstack.org",
    PORTWORX: "pxd.portworx.com",
    VSPHERE: "csi.vsphere.vmware.com",
}
# The field of Volume that holds each plugin's source.
_FIELDS = {
    EBS: "aws_elastic_block_store",
    GCE_PD: "gce_persistent_disk",
    AZURE_DISK: "azure_disk",
    AZURE_FILE: "azure_file",
    CINDER: "cinder",
    PORTWORX: "portworx_volume",
    VSPHERE: "vsphere_volume",
}
_sources = attrgetter(*_FIELDS.values())
_NO_SOURCES = (None,) * len(_FIELDS)
PLUGINS = {driver: plugin for plugin, driver in DRIVERS.items()}
# The plugins whose migration kube-scheduler takes into account.
FOLLOWED = frozenset({EBS, GCE_PD, AZURE_DISK, CINDER, PORTWORX})
# The annotation of a CSINode that lists the plugins that are migrated on its node.
MIGRATED_ANNOTATION = "storage.alpha.kubernetes.io/migrated-plugins"

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"

# csi-translation-lib leaves the zones of Azure's disks as they are.
_TOPOLOGY_KEYS = {
    EBS: "topology.ebs.csi.aws.com/zone",
    GCE_PD: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}
_EBS_VOLUME = re.compile(r"vol-[^/]*")
_UNSPECIFIED = "UNSPECIFIED"


class TranslationError(ValueError):
    """A volume that cannot be translated; the text is that of csi-translation-lib."""


class CSIVolume(msgspec.Struct, frozen=True):
    """A volume as the CSI driver identifies it."""

    driver: str
    handle: str


def in_tree_plugin(sources: InTreeSources) -> str:
    """Return the name of a volume's in-tree plugin, such as kubernetes.io/cinder; empty if DRIVERS does not have it."""
    found = _sources(sources)
    if found == _NO_SOURCES:
        return ""
    return next(plugin for plugin, source in zip(_FIELDS, found, strict=True) if source is not None)


def in_tree_disk(sources: InTreeSources) -> str:
    """Return the ID by which an in-tree volume of EBS, GCE, Azure or Cinder counts before it is migrated; else ""."""
    if sources.aws_elastic_block_store is not None:
        return sources.aws_elastic_block_store.volume_id
    if sources.gce_persistent_disk is not None:
        return sources.gce_persistent_disk.pd_name
    if sources.azure_disk is not None:
        return sources.azure_disk.disk_name
    return "" if sources.cinder is None else sources.cinder.volume_id


def translate(sources: InTreeSources, plugin: str, gce_location: str = f"zones/{_UNSPECIFIED}") -> CSIVolume:
    """Translate a volume of one of the FOLLOWED plugins. Raises TranslationError.

    Example: `awsElasticBlockStore` with `aws://eu-1a/vol-1` gives driver ebs.csi.aws.com and handle vol-1.
    """
    handle = ""
    if sources.aws_elastic_block_store is not None:
        handle = _ebs_handle(sources.aws_elastic_block_store.volume_id)
    elif sources.gce_persistent_disk is not None:
        handle = f"projects/{_UNSPECIFIED}/{gce_location}/disks/{sources.gce_persistent_disk.pd_name}"
    elif sources.azure_disk is not None:
        handle = _azure_handle(sources.azure_disk)
    elif sources.cinder is not None:
        handle = sources.cinder.volume_id
    elif sources.portworx_volume is not None:
        handle = sources.portworx_volume.volume_id
    return CSIVolume(DRIVERS[plugin], handle)


def translate_volume(volume: PersistentVolume, plugin: str) -> CSIVolume:
    """Like translate, for a persistent volume: its labels give the zone or region of a GCE disk."""
    location = _gce_location(volume) if plugin == GCE_PD else ""
    return translate(volume.spec, plugin, location)


def translated_affinity(volume: PersistentVolume, plugin: str) -> NodeSelector | None:
    """Return the node affinity of a persistent volume for its driver; None for all nodes.

    The driver's own topology key replaces the zone label (translateTopologyFromInTreeToCSI).
    """
    affinity = volume.spec.node_affinity
    required = None if affinity is None else affinity.required
    key = _TOPOLOGY_KEYS.get(plugin)
    if key is None:
        return required
    terms = () if required is None else required.node_selector_terms
    labels = volume.metadata.labels
    zone, region = next(
        (names for names in ((ZONE, REGION), (BETA_ZONE, BETA_REGION)) if _has_key(terms, names[0])),
        (BETA_ZONE, BETA_REGION) if BETA_ZONE in labels and ZONE not in labels else (ZONE, REGION),
    )
    if _values(terms, zone):
        terms = _renamed(terms, zone, key)
    elif zone in labels:
        zones = sorted({name.strip() for name in labels[zone].split(ZONE_DELIMITER)} - {""})
        if zones:
            located = SelectorRequirement(key, "In", tuple(zones))
            terms = tuple(
                structs.replace(term, match_expressions=(*term.match_expressions, located))
                for term in terms or (NodeSelectorTerm(),)
            )
            required = required or NodeSelector()
    if region == BETA_REGION and _values(terms, region):
        terms = _renamed(terms, region, REGION)
    return None if required is None else NodeSelector(terms)


def _has_key(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    return any(requirement.key == key for term in terms for requirement in term.match_expressions)


def _values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    return any(
        requirement.key == key and requirement.values for term in terms for requirement in term.match_expressions
    )


def _renamed(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        structs.replace(
            term,
            match_expressions=tuple(
                structs.replace(requirement, key=new) if requirement.key == old else requirement
                for requirement in term.match_expressions
            ),
        )
        for term in terms
    )


def _ebs_handle(volume_id: str) -> str:
    if not volume_id.startswith("aws://"):
        return volume_id
    handle = unquote(urlsplit(volume_id).path).strip("/")
    if not _EBS_VOLUME.fullmatch(handle):
        raise TranslationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )
    return handle


def _azure_handle(disk: AzureDisk) -> str:
    if disk.kind is not None and disk.kind.lower() != "managed":
        raise TranslationError(f"kind({disk.kind}) is not supported in csi migration")
    return disk.disk_uri


def _gce_location(volume: PersistentVolume) -> str:
    """Return the zone of a disk, or the region of a disk in several zones."""
    labels = volume.metadata.labels
    label = labels.get(BETA_ZONE) or labels.get(ZONE, "")
    zones = label.split(ZONE_DELIMITER)
    if len(zones) == 1:
        return f"zones/{label or _UNSPECIFIED}"
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: "
                f"{zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        found = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{found}]"
        )
    return f"regions/{regions.pop()}"

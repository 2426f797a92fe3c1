import pytest

from extender_service.kube.parsing.csi_migration import (
    AZURE_DISK,
    BETA_REGION,
    BETA_ZONE,
    CINDER,
    EBS,
    GCE_PD,
    PORTWORX,
    REGION,
    ZONE,
    CSIVolume,
    TranslationError,
    in_tree_plugin,
    translate_volume,
    translated_affinity,
)
from extender_service.kube.types.core import (
    AWSElasticBlockStore,
    AzureDisk,
    GCEPersistentDisk,
    InTreeSources,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    SelectorRequirement,
    Source,
    VolumeID,
)
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeSpec, VolumeNodeAffinity

EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def volume(
    spec: PersistentVolumeSpec, labels: dict[str, str] | None = None, *terms: tuple[SelectorRequirement, ...]
) -> PersistentVolume:
    affinity = VolumeNodeAffinity(NodeSelector(tuple(NodeSelectorTerm(term) for term in terms))) if terms else None
    spec = PersistentVolumeSpec(
        aws_elastic_block_store=spec.aws_elastic_block_store,
        gce_persistent_disk=spec.gce_persistent_disk,
        azure_disk=spec.azure_disk,
        cinder=spec.cinder,
        portworx_volume=spec.portworx_volume,
        node_affinity=affinity,
    )
    return PersistentVolume(ObjectMeta(name="v", labels=labels or {}), spec)


def ebs(volume_id: str) -> PersistentVolumeSpec:
    return PersistentVolumeSpec(aws_elastic_block_store=AWSElasticBlockStore(volume_id))


def gce(labels: dict[str, str]) -> PersistentVolume:
    return volume(PersistentVolumeSpec(gce_persistent_disk=GCEPersistentDisk("d")), labels)


def one_of(key: str, *values: str) -> SelectorRequirement:
    return SelectorRequirement(key, "In", values)


def test_a_volume_has_the_plugin_of_its_source() -> None:
    assert in_tree_plugin(InTreeSources()) == ""
    assert in_tree_plugin(InTreeSources(vsphere_volume=Source())) == "kubernetes.io/vsphere-volume"
    assert in_tree_plugin(ebs("vol-1")) == EBS


@pytest.mark.parametrize("volume_id", ["vol-1", "aws://us-east-1a/vol-1", "aws:///vol-1"])
def test_an_ebs_volume_is_known_by_its_last_part(volume_id: str) -> None:
    assert translate_volume(volume(ebs(volume_id)), EBS) == CSIVolume("ebs.csi.aws.com", "vol-1")


def test_an_ebs_volume_must_be_one() -> None:
    with pytest.raises(TranslationError, match=r"Invalid format for AWS volume \(aws://zone/disk-1\)"):
        translate_volume(volume(ebs("aws://zone/disk-1")), EBS)


@pytest.mark.parametrize(
    ("labels", "handle"),
    [
        ({}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ({ZONE: "us-east1-a"}, "projects/UNSPECIFIED/zones/us-east1-a/disks/d"),
        ({BETA_ZONE: "us-east1-b", ZONE: "us-east1-a"}, "projects/UNSPECIFIED/zones/us-east1-b/disks/d"),
        ({ZONE: "us-east1-a__us-east1-b"}, "projects/UNSPECIFIED/regions/us-east1/disks/d"),
    ],
)
def test_a_gce_disk_is_known_with_its_zone_or_region(labels: dict[str, str], handle: str) -> None:
    assert translate_volume(gce(labels), GCE_PD) == CSIVolume("pd.csi.storage.gke.io", handle)


@pytest.mark.parametrize(
    ("zones", "error"),
    [("us-east1-a__x", "zone in unexpected format"), ("us-east1-a__us-west1-a", "multiple or no regions")],
)
def test_a_regional_gce_disk_must_be_in_one_region(zones: str, error: str) -> None:
    with pytest.raises(TranslationError, match=error):
        translate_volume(gce({ZONE: zones}), GCE_PD)


def test_only_managed_azure_disks_are_taken_over() -> None:
    disk = PersistentVolumeSpec(azure_disk=AzureDisk("/disks/1", "managed"))
    assert translate_volume(volume(disk), AZURE_DISK) == CSIVolume("disk.csi.azure.com", "/disks/1")
    disk = PersistentVolumeSpec(azure_disk=AzureDisk("/disks/1", "Dedicated"))
    with pytest.raises(TranslationError, match=r"kind\(Dedicated\) is not supported in csi migration"):
        translate_volume(volume(disk), AZURE_DISK)


def test_other_volumes_keep_their_id() -> None:
    cinder = PersistentVolumeSpec(cinder=VolumeID("c"))
    assert translate_volume(volume(cinder), CINDER) == CSIVolume("cinder.csi.openstack.org", "c")
    portworx = PersistentVolumeSpec(portworx_volume=VolumeID("p"))
    assert translate_volume(volume(portworx), PORTWORX) == CSIVolume("pxd.portworx.com", "p")


def test_zones_are_named_by_the_drivers_label() -> None:
    terms = (one_of(ZONE, "a", "b"), one_of("disk", "ssd"))
    assert translated_affinity(volume(ebs("vol-1"), {ZONE: "c"}, terms), EBS) == NodeSelector(
        (NodeSelectorTerm((one_of(EBS_ZONE, "a", "b"), one_of("disk", "ssd"))),)
    )


def test_where_the_affinity_names_no_zone_the_labels_do() -> None:
    located = one_of(EBS_ZONE, "a", "b")
    assert translated_affinity(volume(ebs("vol-1"), {ZONE: "b__ a__"}), EBS) == NodeSelector(
        (NodeSelectorTerm((located,)),)
    )
    labels = {BETA_ZONE: "a__b"}
    assert translated_affinity(volume(ebs("vol-1"), labels, (one_of("disk", "ssd"),)), EBS) == NodeSelector(
        (NodeSelectorTerm((one_of("disk", "ssd"), located)),)
    )


def test_regions_of_old_volumes_are_named_as_today() -> None:
    terms = (one_of(BETA_ZONE, "a"), one_of(BETA_REGION, "r"))
    assert translated_affinity(volume(ebs("vol-1"), {}, terms), EBS) == NodeSelector(
        (NodeSelectorTerm((one_of(EBS_ZONE, "a"), one_of(REGION, "r"))),)
    )


def test_a_driver_without_topology_changes_nothing() -> None:
    disk = PersistentVolumeSpec(azure_disk=AzureDisk("/disks/1"))
    in_zone = NodeSelector((NodeSelectorTerm((one_of(ZONE, "a"),)),))
    assert translated_affinity(volume(disk, {ZONE: "a"}), AZURE_DISK) is None
    assert translated_affinity(volume(disk, {}, (one_of(ZONE, "a"),)), AZURE_DISK) == in_zone
    portworx = PersistentVolumeSpec(portworx_volume=VolumeID("p"))
    assert translated_affinity(volume(portworx, {ZONE: "a"}), PORTWORX) is None
    assert translated_affinity(volume(ebs("vol-1")), EBS) is None

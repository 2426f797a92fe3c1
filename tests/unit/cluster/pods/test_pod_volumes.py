from extender_service.cluster.pods.pod_volumes import NO_VOLUMES, ClaimUse, DiskUse, InTreeUse, disk_uses, pod_volumes
from extender_service.kube.parsing.csi_migration import CSIVolume, in_tree_plugin
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
from tests.support.storage_objects import ephemeral, make_claim, with_claims, with_volumes


def test_volumes_that_nobody_minds_are_not_kept() -> None:
    assert pod_volumes(with_volumes("p", Volume(name="settings"))) is NO_VOLUMES
    assert pod_volumes(with_volumes("p")) is NO_VOLUMES


def test_claims_come_in_the_pods_order() -> None:
    pod = with_volumes("p", *with_claims("p", "b").spec.volumes, ephemeral("v"), *with_claims("p", "a").spec.volumes)
    volumes = pod_volumes(pod)
    assert volumes.attachable == (
        ClaimUse(("default", "b")),
        ClaimUse(("default", "p-v"), "uid-of-p", "p"),
        ClaimUse(("default", "a")),
    )
    assert volumes.claims() == [("default", "b"), ("default", "a")]


def test_a_claim_of_an_ephemeral_volume_must_be_owned_by_the_pod() -> None:
    (use,) = pod_volumes(with_volumes("p", ephemeral("v"))).attachable
    assert isinstance(use, ClaimUse)
    assert use.ownership_fault(make_claim("p-v", owner="uid-of-p")) == ""
    fault = "PVC default/p-v was not created for pod default/p (pod is not owner)"
    assert use.ownership_fault(make_claim("p-v", owner="uid-of-q")) == fault
    assert use.ownership_fault(make_claim("p-v")) == fault
    assert ClaimUse(("default", "p-v")).ownership_fault(make_claim("p-v")) == ""


def test_disks_without_a_claim_are_also_their_drivers_volumes() -> None:
    volumes = pod_volumes(
        with_volumes(
            "p",
            Volume(name="gce", gce_persistent_disk=GCEPersistentDisk("d", read_only=True)),
            Volume(name="ebs", aws_elastic_block_store=AWSElasticBlockStore("aws://zone/vol-1")),
        )
    )
    assert volumes.disks == (DiskUse("gce", ("d",), True), DiskUse("ebs", ("aws://zone/vol-1",), False))
    assert volumes.attachable == (
        InTreeUse(
            "kubernetes.io/gce-pd",
            CSIVolume("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
            "d",
        ),
        InTreeUse("kubernetes.io/aws-ebs", CSIVolume("ebs.csi.aws.com", "vol-1"), "aws://zone/vol-1"),
    )


def test_a_disk_that_no_driver_takes_over_says_why() -> None:
    (use,) = pod_volumes(
        with_volumes("p", Volume(name="v", azure_disk=AzureDisk("/disks/1", "Shared", "disk")))
    ).attachable
    assert use == InTreeUse(
        "kubernetes.io/azure-disk",
        None,
        "disk",
        "converting volume(v) from inline to csi: kind(Shared) is not supported in csi migration",
    )


def test_plugins_whose_migration_is_not_followed_are_named_only() -> None:
    volumes = pod_volumes(with_volumes("p", Volume(name="v", azure_file=Source())))
    assert volumes.attachable == (InTreeUse("kubernetes.io/azure-file", None),)


def test_an_rbd_image_is_one_disk_per_monitor() -> None:
    volume = Volume(name="v", rbd=RBD(("m1", "m2"), "rbd", "image", read_only=True))
    assert disk_uses(volume) == [
        DiskUse("rbd", ("rbd", "image", "m1"), True),
        DiskUse("rbd", ("rbd", "image", "m2"), True),
    ]


def test_an_iscsi_disk_is_known_by_its_iqn() -> None:
    assert disk_uses(Volume(name="v", iscsi=ISCSI("iqn.1"))) == [DiskUse("iscsi", ("iqn.1",), False)]


def test_volumes_are_shown_as_what_they_keep_from_others() -> None:
    given = [
        *with_claims("p", "b").spec.volumes,
        ephemeral("v"),
        Volume(gce_persistent_disk=GCEPersistentDisk("d", read_only=True)),
        Volume(aws_elastic_block_store=AWSElasticBlockStore("vol-1")),
        Volume(iscsi=ISCSI("iqn", read_only=True)),
        Volume(rbd=RBD(("m",), "pool", "image")),
        Volume(azure_disk=AzureDisk("uri")),
        Volume(azure_file=Source()),
        Volume(cinder=VolumeID("id")),
        Volume(portworx_volume=VolumeID("id")),
        Volume(vsphere_volume=Source()),
    ]
    shown = pod_volumes(with_volumes("p", *given)).shown()
    assert len(shown) == len(given)
    assert {use for volume in shown for use in disk_uses(volume)} == {use for each in given for use in disk_uses(each)}
    assert sorted(map(in_tree_plugin, shown)) == sorted(map(in_tree_plugin, given))
    assert [each.persistent_volume_claim for each in shown if each.persistent_volume_claim] == [
        PersistentVolumeClaimSource("b")
    ]
    assert sum(each.ephemeral is not None for each in shown) == 1
    assert NO_VOLUMES.shown() == ()

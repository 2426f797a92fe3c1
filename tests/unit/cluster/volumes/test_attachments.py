import pytest

from extender_service.cluster.pods.pod_volumes import pod_volumes
from extender_service.cluster.volumes.attachments import Attachment, Dependencies, Fault, attachments
from extender_service.cluster.volumes.storage_table import Storage, StorageObject
from extender_service.kube.types.core import AWSElasticBlockStore, Pod, Source, Volume
from extender_service.kube.types.storage import (
    CSISource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
)
from tests.support.storage_objects import (
    ephemeral,
    make_claim,
    make_class,
    make_volume,
    with_claims,
    with_volumes,
)

EBS, EBS_DRIVER = "kubernetes.io/aws-ebs", "ebs.csi.aws.com"


def found(pod: Pod, *items: StorageObject, dependencies: Dependencies | None = None) -> list[Attachment | Fault]:
    storage = Storage()
    for item in items:
        storage.apply(item)
    return list(attachments(storage, pod_volumes(pod), set() if dependencies is None else dependencies))


def test_a_bound_claim_is_its_volume() -> None:
    assert found(with_claims("p", "c"), make_claim("c", "v"), make_volume("v", handle="h")) == [
        Attachment("csi.example.com", "h")
    ]


def test_an_in_tree_volume_counts_where_its_plugin_is_migrated() -> None:
    volume = make_volume("v", PersistentVolumeSpec(aws_elastic_block_store=AWSElasticBlockStore("vol-1")))
    assert found(with_claims("p", "c"), make_claim("c", "v"), volume) == [Attachment(EBS_DRIVER, "vol-1", EBS)]
    inline = Volume(name="v", aws_elastic_block_store=AWSElasticBlockStore("vol-1"))
    assert found(with_volumes("p", inline)) == [Attachment(EBS_DRIVER, "vol-1", EBS)]


@pytest.mark.parametrize(
    "spec",
    [
        PersistentVolumeSpec(),
        PersistentVolumeSpec(azure_file=Source()),
        PersistentVolumeSpec(aws_elastic_block_store=AWSElasticBlockStore("aws://zone/disk-1")),
        PersistentVolumeSpec(csi=CSISource("csi.example.com", "")),
        PersistentVolumeSpec(csi=CSISource("", "h")),
    ],
)
def test_volumes_that_no_driver_attaches_do_not_count(spec: PersistentVolumeSpec) -> None:
    assert found(with_claims("p", "c"), make_claim("c", "v"), make_volume("v", spec)) == []


def test_volumes_of_all_kinds_come_in_the_pods_order() -> None:
    inline = Volume(name="v", aws_elastic_block_store=AWSElasticBlockStore("vol-1"))
    claims = with_claims("p", "", "c").spec.volumes
    pod = with_volumes("p", inline, *claims)
    assert found(pod, make_claim("c", "v"), make_volume("v", handle="h")) == [
        Attachment(EBS_DRIVER, "vol-1", EBS),
        Fault("PersistentVolumeClaim had no name"),
        Attachment("csi.example.com", "h"),
    ]


@pytest.mark.parametrize("volume", ["", "not-there-yet"])
def test_a_claim_without_its_volume_is_one_that_its_class_will_make(volume: str) -> None:
    claim = make_claim("c", volume, class_name="fast")
    (one,) = found(with_claims("p", "c"), claim, make_class("fast"))
    (other,) = found(with_claims("p", "d"), make_claim("d", class_name="fast"), make_class("fast"))
    assert isinstance(one, Attachment)
    assert isinstance(other, Attachment)
    assert (one.driver, one.plugin) == ("csi.example.com", "")
    assert one.handle != other.handle


@pytest.mark.parametrize(("provisioner", "plugin"), [(EBS, EBS), ("kubernetes.io/azure-file", None), ("", None)])
def test_which_provisioners_count(provisioner: str, plugin: str | None) -> None:
    items = found(with_claims("p", "c"), make_claim("c", class_name="fast"), make_class("fast", provisioner))
    assert [item.plugin for item in items] == ([] if plugin is None else [plugin])


def test_a_claim_without_a_class_does_not_count() -> None:
    assert found(with_claims("p", "c"), make_claim("c")) == []
    assert found(with_claims("p", "c"), make_claim("c", class_name="nobody")) == []


def test_what_cannot_be_judged_says_why() -> None:
    assert found(with_claims("p", "", "c")) == [
        Fault("PersistentVolumeClaim had no name"),
        Fault('looking up PVC default/c: persistentvolumeclaim "c" not found', is_missing=True),
    ]
    assert found(with_volumes("p", ephemeral("v")), make_claim("p-v")) == [
        Fault("PVC default/p-v was not created for pod default/p (pod is not owner)")
    ]
    inline = Volume(name="v", aws_elastic_block_store=AWSElasticBlockStore("aws://zone/x"))
    (fault,) = found(with_volumes("p", inline))
    assert isinstance(fault, Fault)
    assert fault.plugin == EBS


def test_everything_that_was_looked_up_is_a_dependency() -> None:
    dependencies: Dependencies = set()
    claim = make_claim("c", "v", class_name="fast")
    found(with_claims("p", "c", "d"), claim, dependencies=dependencies)
    assert dependencies == {
        (PersistentVolumeClaim, ("default", "c")),
        (PersistentVolumeClaim, ("default", "d")),
        (PersistentVolume, ("", "v")),
        (StorageClass, ("", "fast")),
    }

import pytest

from extender_service.cluster.nodes.volume_support import VolumeSupport, limit_key, volume_support
from tests.support.storage_objects import make_csi_node

EBS, PORTWORX, AZURE_FILE = "kubernetes.io/aws-ebs", "kubernetes.io/portworx-volume", "kubernetes.io/azure-file"
CSI_KEY = "attachable-volumes-csi-csi.example.com"


def test_a_long_drivers_limit_has_a_hash_in_its_name() -> None:
    assert limit_key("csi.example.com") == CSI_KEY
    # As kubelet writes it.
    long = "a-driver-with-a-name-that-is-too-long-for-a-resource.csi.example.com"
    assert limit_key(long).startswith("attachable-volumes-csi-a-driver-with-a-name-th")
    assert len(limit_key(long)) == len("attachable-volumes-csi-") + 39
    exactly = "x" * (63 - len("attachable-volumes-csi-"))
    assert limit_key(exactly) != f"attachable-volumes-csi-{exactly}"
    assert limit_key(exactly[1:]) == f"attachable-volumes-csi-{exactly[1:]}"


def test_without_a_csi_node_the_nodes_own_limits_count() -> None:
    support = volume_support({CSI_KEY: 0, "cpu": 4}, None)
    assert support == VolumeSupport(limits=((CSI_KEY, 0),))
    assert (support.limit(CSI_KEY), support.limit("attachable-volumes-csi-other")) == (0, None)


def test_the_csi_nodes_limits_take_precedence() -> None:
    support = volume_support({CSI_KEY: 5}, make_csi_node("n", {"csi.example.com": 2, "other": 3}))
    assert (support.limit(CSI_KEY), support.limit(limit_key("other"))) == (2, 3)


@pytest.mark.parametrize(
    ("plugin", "annotation", "counts"),
    [
        (EBS, None, True),
        (PORTWORX, None, False),
        (PORTWORX, f"{EBS},{PORTWORX}", True),
        (AZURE_FILE, AZURE_FILE, False),
    ],
)
def test_in_tree_volumes_count_where_their_plugin_is_migrated(
    plugin: str, annotation: str | None, counts: bool
) -> None:
    assert volume_support({}, make_csi_node("n", migrated=annotation)).counts(plugin) is counts
    assert not volume_support({}, None).counts(plugin)


def test_equal_nodes_have_equal_support() -> None:
    one = volume_support({}, make_csi_node("a", {"x": 1, "y": 2}, migrated="q,p"))
    other = volume_support({}, make_csi_node("b", {"y": 2, "x": 1}, migrated="p,q"))
    assert one == other
    assert hash(one) == hash(other)


def test_a_csi_node_lists_the_drivers_that_are_installed() -> None:
    assert volume_support({}, make_csi_node("n", {"x": 1, "y": 2})).drivers == {"x", "y"}


def test_a_csi_node_that_tells_of_no_migration_migrates_nothing() -> None:
    assert volume_support({}, make_csi_node("n")) == VolumeSupport(has_csi_node=True)

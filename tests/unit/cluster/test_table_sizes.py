"""Tables hold what objects have brought for as long as these are there."""

from collections.abc import Iterable

import pytest

from extender_service.cluster.cluster import Cluster
from extender_service.cluster.storage import StorageObject
from extender_service.cluster.table_sizes import table_sizes
from extender_service.kube.objects import LabelSelector, ObjectMeta
from extender_service.kube.resources import key_of
from extender_service.kube.storage import ClaimReference, CSISource, PersistentVolume, PersistentVolumeSpec
from tests.unit.cluster.objects import make_node
from tests.unit.cluster.storage_objects import make_capacity, make_claim, make_class, make_volume, with_claims


def entries(cluster: Cluster) -> dict[str, int]:
    return {size.name: size.entries for size in table_sizes(cluster)}


def grown(cluster: Cluster) -> dict[str, int]:
    """The tables that have more entries than those of an empty cluster."""
    before = entries(Cluster())
    return {name: count for name, count in entries(cluster).items() if count != before[name]}


def csi_volume(name: str, driver: str) -> PersistentVolume:
    return PersistentVolume(ObjectMeta(name=name), PersistentVolumeSpec(csi=CSISource(driver, f"handle-of-{name}")))


def test_a_driver_of_which_nobody_holds_a_volume_any_more_takes_no_room() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    cluster.apply_storage(make_claim("c", "v"))
    cluster.apply_storage(csi_volume("v", "disk.csi.example"))
    cluster.apply_pod(with_claims("p", "c", node="a"))
    cluster.apply_pod(with_claims("q", "c", node="a"))
    # Whether in-tree volumes that were migrated count or not, on the node and of the pods.
    assert entries(cluster)["volumes_limits"] == 4
    cluster.remove_pod(("default", "p"))
    assert entries(cluster)["volumes_limits"] == 4
    cluster.remove_pod(("default", "q"))
    assert {name for name in grown(cluster) if name.startswith("volumes_")} == set()


@pytest.mark.parametrize(
    "items",
    [
        [make_volume("v", class_name="fast"), make_volume("w", class_name="slow")],
        [make_volume("v", class_name="fast", only={"kubernetes.io/hostname": ["a"]})],
        [make_volume("v", class_name="fast", claim=ClaimReference("default", "c"))],
        [make_capacity("a", "fast", "5Gi", LabelSelector()), make_capacity("b", "fast", "5Gi", LabelSelector())],
        [make_claim("c", "v"), make_class("fast")],
    ],
)
def test_a_storage_class_of_which_nothing_is_left_takes_no_room(items: Iterable[StorageObject]) -> None:
    cluster = Cluster()
    for item in items:
        cluster.apply_storage(item)
    assert grown(cluster)
    for item in items:
        cluster.remove_storage(type(item), key_of(item))
    assert grown(cluster) == {}


def test_a_class_keeps_its_other_capacities() -> None:
    cluster = Cluster()
    for name in ("a", "b"):
        cluster.apply_storage(make_capacity(name, "fast", "5Gi", LabelSelector()))
    cluster.remove_storage(type(make_capacity("a", "fast", "5Gi", LabelSelector())), ("kube-system", "a"))
    assert (entries(cluster)["storage_capacity_classes"], entries(cluster)["storage_capacities"]) == (1, 1)


def test_what_decisions_ask_for_has_a_limit() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    for number in range(300):
        cluster.view(None).label(f"key-{number}")
    keys = next(size for size in table_sizes(cluster) if size.name == "node_label_keys")
    assert keys.entries == keys.limit == 256

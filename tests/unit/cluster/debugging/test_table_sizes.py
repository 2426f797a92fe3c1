"""Tables hold what objects have brought for as long as these are there."""

from collections.abc import Iterable

import pytest

from extender_service.cluster.debugging.table_sizes import table_sizes
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.kube.types.core import LabelSelector, ObjectMeta
from extender_service.kube.types.keys import key_of
from extender_service.kube.types.storage import ClaimReference, CSISource, PersistentVolume, PersistentVolumeSpec
from tests.support.objects import make_node, make_pod
from tests.support.storage_objects import make_capacity, make_claim, make_class, make_volume, with_claims


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
    cluster.apply_node(make_node("a", labels={f"key-{number}": "" for number in range(300)}))
    for number in range(300):
        cluster.view(None).label(f"key-{number}")
        keys = next(size for size in table_sizes(cluster) if size.name == "node_label_keys")
        assert min(number + 1, 128) <= keys.entries <= 256 == keys.limit


def test_every_table_is_told_by_its_name_which_is_a_label_of_a_metric() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    web = make_pod("web", requests={"example.com/gpu": "1"})
    cluster.apply_pod(web)
    cluster.placements.place(web, "uid-of-web", "a")
    one = {"node_rows", "taint_sets", "node_port_sets", "volume_supports", "request_sets", "pod_port_sets"}
    one |= {"unoffered_resources", "label_sets", "namespaces", "term_sets", "known_pods", "placements"}
    none = {"images", "node_label_keys", "node_label_values", "kept_by_facts", "kept_by_room", "pod_label_keys"}
    none |= {"pod_counts", "anti_affinity_terms", "affinity_terms", "nominations", "namespace_selections"}
    none |= {"workload_answers", "remembered", "anti_affinity_sums", "affinity_sums"}
    none |= {"anti_affinity_matches", "affinity_matches"}
    none |= {f"storage_{name}" for name in ("objects", "assumed", "capacity_classes", "capacities")}
    none |= {f"storage_free_{name}" for name in ("volumes", "classes", "reaches", "claims")}
    none |= {f"volumes_{name}" for name in ("holders", "attachments", "dependencies", "limits", "shared", "disks")}
    none |= {f"volumes_{name}" for name in ("claims", "claim_names", "faults", "attached")}
    none |= {f"workload_{name}" for name in ("objects", "services", "budgets")}
    assert entries(cluster) == dict.fromkeys(one, 1) | dict.fromkeys(none, 0) | {"dimensions": 6, "pod_slots": 2}


def test_the_limits_of_tables_are_told_with_them() -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a"))
    cluster.apply_node(make_node("b"))
    for name in ("p", "q"):
        cluster.placements.place(make_pod(name), f"uid-of-{name}", "a")
    assert {size.name: size.limit for size in table_sizes(cluster) if size.limit is not None} == {
        "node_label_keys": 256,
        "node_label_values": 2 * 256,
        "kept_by_facts": 128,
        "kept_by_room": 128,
        "remembered": 320,
        "anti_affinity_sums": 128,
        "affinity_sums": 128,
        "anti_affinity_matches": 64,
        "affinity_matches": 64,
        "pod_label_keys": 256,
        "pod_counts": 512,
        "namespace_selections": 256,
        "workload_answers": 64,
    }

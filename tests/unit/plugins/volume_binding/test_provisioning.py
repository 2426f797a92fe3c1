import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import StorageObject
from extender_service.framework.plugin_errors import PluginError
from extender_service.kube.types.core import LabelSelector
from extender_service.kube.types.storage import StorageClass, TopologyRequirement, TopologyTerm
from extender_service.plugins.volume_binding.provisioning import can_make, has_space, storage_class_of
from tests.support.clusters.volume_worlds import storage_cluster
from tests.support.objects import make_node
from tests.support.storage_objects import make_capacity, make_claim, make_class, make_driver

CSI = "csi.example.com"


def cluster_with(*storage: StorageObject) -> Cluster:
    return storage_cluster([make_node(name, labels={"zone": name}) for name in ("a", "b")], storage)


def made(storage_class: StorageClass) -> list[bool]:
    answer: list[bool] = can_make(cluster_with().view(None), storage_class).tolist()
    return answer


def space(*storage: StorageObject, size: str | None = "5Gi") -> list[bool]:
    cluster = cluster_with(*storage)
    claim = make_claim("c", class_name="x", size=size)
    answer: list[bool] = has_space(cluster.view(None), cluster.storage, claim, make_class("x")).tolist()
    return answer


def test_a_class_without_a_provisioner_makes_nothing() -> None:
    assert made(make_class("x", "")) == [False, False]
    assert made(make_class("x", "kubernetes.io/no-provisioner")) == [False, False]
    assert made(make_class("x", CSI)) == [True, True]


def test_volumes_are_made_in_the_allowed_topologies() -> None:
    assert made(make_class("x", CSI, only={"zone": "a"})) == [True, False]
    assert made(make_class("x", CSI, only={"zone": "a", "disk": "ssd"})) == [False, False]


def test_empty_and_malformed_terms_allow_nothing() -> None:
    malformed = TopologyTerm((TopologyRequirement("zone", ()),))
    for terms in ((TopologyTerm(),), (malformed,)):
        assert made(structs.replace(make_class("x", CSI), allowed_topologies=terms)) == [False, False]
    here = TopologyTerm((TopologyRequirement("zone", ("b",)),))
    assert made(structs.replace(make_class("x", CSI), allowed_topologies=(malformed, here))) == [False, True]


def test_there_is_space_where_a_capacity_is_large_enough() -> None:
    driver = make_driver(CSI, storage_capacity=True)
    here = LabelSelector({"zone": "a"})
    assert space(driver) == [False, False]
    assert space(driver, make_capacity("k", "x", "5Gi", here)) == [True, False]
    assert space(driver, make_capacity("k", "x", "4Gi", here)) == [False, False]
    assert space(driver, make_capacity("k", "x", "9Gi", here, largest="4Gi")) == [False, False]
    assert space(driver, make_capacity("k", "y", "9Gi", here)) == [False, False]
    assert space(driver, make_capacity("k", "x", "9Gi", LabelSelector())) == [True, True]


def test_only_drivers_that_publish_their_capacity_are_asked() -> None:
    assert space() == [True, True]
    assert space(make_driver(CSI, storage_capacity=False)) == [True, True]
    assert space(make_driver(CSI, storage_capacity=True), size=None) == [True, True]


def test_a_claim_needs_its_class() -> None:
    storage = cluster_with().storage
    with pytest.raises(PluginError, match='no class for claim "default/c"'):
        storage_class_of(storage, make_claim("c"))
    with pytest.raises(PluginError, match='failed to find storage class "x"'):
        storage_class_of(storage, make_claim("c", class_name="x"))

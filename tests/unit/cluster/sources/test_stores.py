import logging

import msgspec
import pytest

from extender_service.cluster.amounts.dimensions import CPU_MILLI
from extender_service.cluster.sources.stores import NodeStore, PodStore, StorageStore, WorkloadStore
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.resources.api_resources import WATCHED_PODS
from extender_service.kube.types.core import ObjectMeta
from extender_service.kube.types.storage import PersistentVolume
from extender_service.kube.types.workloads import ReplicaSet
from tests.support.objects import make_node, make_pod
from tests.support.storage_objects import make_volume


def test_stores_add_update_and_forget() -> None:
    cluster = Cluster()
    nodes, pods = NodeStore(cluster), PodStore(cluster)
    nodes.apply(make_node("a"))
    nodes.apply(make_node("a", unschedulable=True))
    nodes.apply(make_node("b"))
    pods.apply(make_pod("web"))
    pods.apply(make_pod("web", "a"))
    assert (list(nodes.keys()), list(pods.keys())) == ([("", "a"), ("", "b")], [("default", "web")])
    assert cluster.view(None).unschedulable.tolist() == [True, False]
    nodes.remove(("", "b"))
    pods.remove(("default", "web"))
    assert (list(nodes.keys()), list(pods.keys())) == ([("", "a")], [])


def test_a_malformed_quantity_leaves_an_object_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    NodeStore(cluster).apply(make_node("a", {"cpu": "4"}))
    NodeStore(cluster).apply(make_node("a", {"cpu": "many"}))
    PodStore(cluster).apply(make_pod("web", requests={"cpu": "many"}))
    assert (cluster.node_count, cluster.pod_count) == (1, 0)
    assert cluster.view(None).allocatable(CPU_MILLI).tolist() == [4000]
    assert [(record.levelno, vars(record)["object"]) for record in caplog.records] == [
        (logging.WARNING, "a"),
        (logging.WARNING, "default/web"),
    ]
    assert {record.getMessage() for record in caplog.records} == {"a malformed object is left as it was"}
    assert all("quantity 'many'" in vars(record)["error"] for record in caplog.records)


@pytest.mark.parametrize(
    ("pod", "problem"),
    [
        ({"metadata": {"name": "web", "labels": ["app"]}}, "labels"),
        ({"metadata": {"name": "web"}, "spec": {"containers": [{"resources": {"requests": 1}}]}}, "requests"),
        ({"metadata": {"name": "web"}, "spec": {"containers": [{"ports": {"hostPort": 80}}]}}, "ports"),
    ],
)
def test_a_pod_of_another_form_is_left_out(pod: object, problem: str, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    PodStore(cluster).apply(WATCHED_PODS.decoder.decode(msgspec.json.encode(pod)))
    assert cluster.pod_count == 0
    [record] = caplog.records
    assert problem in vars(record)["error"]


def test_workloads_that_are_deleted_are_forgotten() -> None:
    cluster = Cluster()
    store = WorkloadStore(cluster, ReplicaSet)
    for name in ("web", "db"):
        store.apply(ReplicaSet(ObjectMeta(name=name, namespace="shop")))
    store.remove(("shop", "web"))
    assert list(store.keys()) == cluster.workloads.keys(ReplicaSet) == [("shop", "db")]


def test_a_malformed_volume_is_left_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    store = StorageStore(cluster, PersistentVolume)
    store.apply(make_volume("v"))
    store.apply(make_volume("v", size="lots"))
    assert "a malformed object is left as it was" in caplog.text
    volume = cluster.storage.volume("v")
    assert volume is not None
    assert volume.spec.capacity == {"storage": "1Gi"}
    assert list(store.keys()) == [("", "v")]
    store.remove(("", "v"))
    assert cluster.storage.volume("v") is None

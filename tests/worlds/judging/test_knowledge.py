"""What a program knows is found in the history, and a cache that is not as its watches have shown is reported."""

import re
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from msgspec import structs

from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.volumes.storage_table import Storage
from extender_service.kube.resources.api_resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from extender_service.kube.resources.api_resources import PODS as POD_RESOURCE
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.storage import SELECTED_NODE_ANNOTATION, ClaimReference
from extender_service.kube.types.workloads import Namespace
from tests.worlds.api_server.etcd import Etcd, Item
from tests.worlds.api_server.kinds import CLAIMS, PODS, VOLUMES
from tests.worlds.invariants.insides import SchedulerInsides, scheduler_insides
from tests.worlds.judging.knowledge import Caches, as_assumed
from tests.worlds.scenarios import Scenario, ScheduledCluster


@pytest.fixture
def cluster() -> ScheduledCluster:
    """A world in which all pods are bound by now."""
    made = ScheduledCluster(Scenario(seed=1, minutes=0.5, nodes=2, pods=3))
    made.run()
    assert all(pod["spec"].get("nodeName") for pod in made.pods())
    return made


@pytest.fixture
def caches(cluster: ScheduledCluster) -> Caches:
    return Caches(cluster.holds.observed)


@pytest.fixture
def insides(cluster: ScheduledCluster) -> SchedulerInsides:
    found = scheduler_insides(cluster.replicas[0])
    assert found is not None
    return found


def test_all_that_a_program_knows_is_found(
    cluster: ScheduledCluster, caches: Caches, insides: SchedulerInsides
) -> None:
    known = caches.read("replica-0", insides)
    assert known is not None
    assert {item.key for kind, item in known.objects if kind.name == "Node"} == {"node-0", "node-1"}
    assert {(item.key, node) for item, node in known.counted} == {
        (f"default/{pod['metadata']['name']}", pod["spec"]["nodeName"]) for pod in cluster.pods()
    }
    assert [*known.nominated] == []
    assert caches.wrong == []


def test_a_pod_that_is_placed_is_known_as_it_was_then(
    cluster: ScheduledCluster, caches: Caches, insides: SchedulerInsides
) -> None:
    """The watch has not shown it, and it has other labels by now."""
    cluster._create("pods", {"metadata": {"name": "late"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    item = cluster.model.etcd.get(PODS, "default/late")
    assert item is not None
    pod = POD_RESOURCE.decoder.decode(item.body)
    insides.cluster.placements.place(pod, pod_uid(pod), "node-0")
    cluster._ask("PATCH", "/api/v1/namespaces/default/pods/late", {"metadata": {"labels": {"app": "other"}}})
    known = caches.read("replica-0", insides)
    assert known is not None
    assert (item, "node-0") in known.counted
    assert caches.wrong == []


def lose_node(cluster: Cluster) -> None:
    cluster.nodes.remove("node-0")


def lose_pod(cluster: Cluster) -> None:
    slot = cluster.slot_of(("default", "pod-0"))
    assert slot is not None
    cluster.pods.facts[slot] = None


def lose_namespace(cluster: Cluster) -> None:
    cluster.workloads.remove(Namespace, ("", "default"))


def keep_old_node(cluster: Cluster) -> None:
    row = cluster.nodes.row_of["node-0"]
    node = cluster.nodes.objects[row]
    assert node is not None
    cluster.nodes.objects[row] = structs.replace(node, metadata=structs.replace(node.metadata, resource_version="0"))


@pytest.mark.parametrize(
    ("harm", "plural", "what"),
    [
        (lose_node, "nodes", r"lacks node-0 at \d+"),
        (lose_pod, "pods", r"lacks \S+ at node-\d"),
        (lose_namespace, "namespaces", r"lacks default at \d+"),
        (keep_old_node, "nodes", r"lacks node-0 at \d+ and has node-0 at 0"),
    ],
)
def test_a_cache_that_is_not_as_its_watch_has_shown_is_reported(
    caches: Caches, insides: SchedulerInsides, harm: Callable[[Cluster], None], plural: str, what: str
) -> None:
    harm(insides.cluster)
    assert caches.read("replica-0", insides) is None
    (text,) = caches.wrong
    said = f"the cache of replica-0 is not what its watch of {plural} has shown at"
    assert re.fullmatch(rf"\d+\.\d+ {said} \d+: it {what}", text)


def test_of_a_kind_that_is_being_listed_nothing_is_said(caches: Caches, insides: SchedulerInsides) -> None:
    lose_node(insides.cluster)
    insides.api_server._reflectors["nodes"]._must_list = True
    assert caches.read("replica-0", insides) is None
    assert caches.wrong == []


def test_where_the_history_is_compacted_nothing_is_said(
    cluster: ScheduledCluster, caches: Caches, insides: SchedulerInsides
) -> None:
    lose_node(insides.cluster)
    cluster.model.etcd.compact(cluster.model.etcd.revision + 1)
    assert caches.read("replica-0", insides) is None
    assert caches.wrong == []


def test_where_the_history_is_compacted_the_versions_of_pods_are_not_known(
    cluster: ScheduledCluster, caches: Caches, insides: SchedulerInsides
) -> None:
    cluster.model.etcd.compact(cluster.model.etcd.revision + 1)
    assert caches.read("replica-0", insides) is None
    assert caches.wrong == []


def test_while_pods_are_being_listed_their_versions_are_not_known(caches: Caches, insides: SchedulerInsides) -> None:
    insides.api_server._reflectors["pods"]._must_list = True
    assert caches.read("replica-0", insides) is None
    assert caches.wrong == []


def test_after_a_restore_versions_say_nothing() -> None:
    etcd = Etcd(lambda: 0.0)
    caches = Caches(Mock(model=Mock(etcd=etcd)))
    assert not caches.is_blind
    etcd.restore(etcd.save())
    assert caches.is_blind


def test_a_volume_is_known_as_it_is_assumed_to_be() -> None:
    value = {"metadata": {"name": "v", "resourceVersion": "7"}, "spec": {"capacity": {"storage": "1Gi"}}}
    item, storage = Item("v", value, 7), Storage()
    volume = PERSISTENT_VOLUMES.decoder.decode(item.body)
    storage.apply(volume)
    assert as_assumed(storage, VOLUMES, item) is item
    claim = ClaimReference("default", "c", "uid-1", "5")
    metadata = structs.replace(volume.metadata, annotations={"bound": "yes"})
    storage.assume(
        volume, structs.replace(volume, metadata=metadata, spec=structs.replace(volume.spec, claim_ref=claim))
    )
    found = as_assumed(storage, VOLUMES, item)
    assert found.key == "v assumed for uid-1"
    assert found.value == {
        "metadata": {"name": "v", "resourceVersion": "7", "annotations": {"bound": "yes"}},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": "default",
                "name": "c",
                "uid": "uid-1",
                "resourceVersion": "5",
            },
        },
    }
    assert "claimRef" not in item.value["spec"]


def test_a_claim_is_known_as_it_is_assumed_to_be() -> None:
    metadata = {"namespace": "default", "name": "c", "resourceVersion": "7", "annotations": {"a": "b"}}
    item, storage = Item("default/c", {"metadata": metadata, "spec": {}}, 7), Storage()
    claim = PERSISTENT_VOLUME_CLAIMS.decoder.decode(item.body)
    storage.apply(claim)
    assert as_assumed(storage, CLAIMS, item) is item
    annotations = {**claim.metadata.annotations, SELECTED_NODE_ANNOTATION: "node-1"}
    storage.assume(claim, structs.replace(claim, metadata=structs.replace(claim.metadata, annotations=annotations)))
    found = as_assumed(storage, CLAIMS, item)
    assert found.key == "default/c assumed for node-1"
    assert found.value["metadata"]["annotations"] == {"a": "b", SELECTED_NODE_ANNOTATION: "node-1"}

"""Claims and volumes: what is bound, made, given back and deleted."""

from typing import Any

import pytest

from tests.worlds.actors.kubelet import DRIVER
from tests.worlds.actors.small_cluster import SmallCluster
from tests.worlds.controllers.manager import ControllerManager
from tests.worlds.controllers.provisioner import ZONE, Provisioner
from tests.worlds.controllers.shared_views import SharedViews
from tests.worlds.controllers.volume_binding import PROVISIONER

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"


@pytest.fixture
def cluster() -> SmallCluster:
    made = SmallCluster()
    ControllerManager(made.client("controller-manager"), made.model, ("volumes",)).start()
    views = SharedViews(client := made.client("provisioner"))
    Provisioner(client, views)
    views.start()
    for name, mode in (("now", "Immediate"), ("later", "WaitForFirstConsumer")):
        body = {"metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": mode}
        made.ask("POST", CLASSES, body)
    made.ask("POST", "/api/v1/nodes", {"metadata": {"name": "n", "labels": {ZONE: "a"}}})
    return made


def create_claim(cluster: SmallCluster, class_name: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": class_name}
    body = {"metadata": {"name": "c"}, "spec": {**spec, "resources": {"requests": {"storage": "2Gi"}}}}
    cluster.ask("POST", CLAIMS, body)
    cluster.run(30.0)


def create_volume(cluster: SmallCluster, name: str, size: str, class_name: str) -> None:
    source = {"local": {"path": "/data"}}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": class_name, **source}
    cluster.ask("POST", VOLUMES, {"metadata": {"name": name}, "spec": spec})


def claim(cluster: SmallCluster) -> Any:
    return cluster.ask("GET", f"{CLAIMS}/c")


def test_an_immediate_claim_gets_a_new_volume(cluster: SmallCluster) -> None:
    create_claim(cluster, "now")
    (volume,) = cluster.all("persistentvolumes")
    assert claim(cluster)["spec"]["volumeName"] == volume["metadata"]["name"]
    assert (claim(cluster)["status"]["phase"], volume["status"]["phase"]) == ("Bound", "Bound")


@pytest.mark.parametrize("marks", [{}, {PROVISIONER: DRIVER}], ids=["unmarked", "marked"])
def test_a_claim_gets_a_volume_though_its_class_is_known_late(cluster: SmallCluster, marks: dict[str, str]) -> None:
    create_claim(cluster, "late")
    cluster.ask("PATCH", f"{CLAIMS}/c", {"metadata": {"annotations": marks}})
    cluster.run(5.0)
    assert cluster.names("persistentvolumes") == []
    body = {"metadata": {"name": "late"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"}
    cluster.ask("POST", CLASSES, body)
    cluster.run(60.0)
    (volume,) = cluster.all("persistentvolumes")
    assert claim(cluster)["spec"]["volumeName"] == volume["metadata"]["name"]


def test_an_immediate_claim_gets_the_smallest_volume_that_fits(cluster: SmallCluster) -> None:
    for name, size in (("small", "1Gi"), ("large", "5Gi"), ("right", "3Gi")):
        create_volume(cluster, name, size, "now")
    cluster.run(30.0)
    create_claim(cluster, "now")
    assert claim(cluster)["spec"]["volumeName"] == "right"
    phases = {each["metadata"]["name"]: each["status"]["phase"] for each in cluster.all("persistentvolumes")}
    assert phases == {"small": "Available", "large": "Available", "right": "Bound"}


def test_a_volume_that_does_not_name_the_claim_any_more_is_bound_to_it_again(cluster: SmallCluster) -> None:
    create_claim(cluster, "now")
    (volume,) = cluster.all("persistentvolumes")
    free = {**volume, "spec": {name: part for name, part in volume["spec"].items() if name != "claimRef"}}
    cluster.ask("PUT", f"{VOLUMES}/{volume['metadata']['name']}", free)
    cluster.run(30.0)
    (volume,) = cluster.all("persistentvolumes")
    assert volume["spec"]["claimRef"]["uid"] == claim(cluster)["metadata"]["uid"]
    assert (claim(cluster)["status"]["phase"], volume["status"]["phase"]) == ("Bound", "Bound")


def test_a_claim_that_waits_gets_a_volume_of_the_zone_of_the_node(cluster: SmallCluster) -> None:
    create_claim(cluster, "later")
    assert claim(cluster)["status"]["phase"] == "Pending"
    select(cluster, "n")
    cluster.run(30.0)
    (volume,) = cluster.all("persistentvolumes")
    assert claim(cluster)["spec"]["volumeName"] == volume["metadata"]["name"]
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": ZONE, "operator": "In", "values": ["a"]}]


def test_a_node_that_is_gone_is_chosen_again(cluster: SmallCluster) -> None:
    create_claim(cluster, "later")
    select(cluster, "gone")
    cluster.run(30.0)
    assert "volume.kubernetes.io/selected-node" not in claim(cluster)["metadata"]["annotations"]


def test_a_claim_that_was_given_back_gets_no_volume_before_a_node_is_selected_again(cluster: SmallCluster) -> None:
    create_claim(cluster, "later")
    select(cluster, "gone")
    cluster.run(30.0)
    assert PROVISIONER in claim(cluster)["metadata"]["annotations"]
    assert cluster.names("persistentvolumes") == []
    select(cluster, "n")
    cluster.run(30.0)
    (volume,) = cluster.all("persistentvolumes")
    assert claim(cluster)["spec"]["volumeName"] == volume["metadata"]["name"]


def test_a_claim_gets_the_volume_that_the_scheduler_chose(cluster: SmallCluster) -> None:
    create_volume(cluster, "v", "5Gi", "later")
    create_claim(cluster, "later")
    reference = {"namespace": "default", "name": "c", "uid": claim(cluster)["metadata"]["uid"]}
    cluster.ask("PATCH", f"{VOLUMES}/v", {"spec": {"claimRef": reference}})
    cluster.run(30.0)
    assert (claim(cluster)["spec"]["volumeName"], claim(cluster)["status"]["phase"]) == ("v", "Bound")


def test_the_volume_of_a_deleted_claim_goes_once_no_pod_uses_it(cluster: SmallCluster) -> None:
    create_claim(cluster, "now")
    pods = "/api/v1/namespaces/default/pods"
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    spec = {"containers": [{"name": "c", "image": "i:1"}], "volumes": volumes}
    cluster.ask("POST", pods, {"metadata": {"name": "a"}, "spec": spec})
    cluster.run(10.0)
    cluster.ask("DELETE", f"{CLAIMS}/c")
    cluster.run(30.0)
    assert cluster.names("persistentvolumeclaims") == ["c"]
    cluster.ask("DELETE", f"{pods}/a")
    cluster.run(30.0)
    assert cluster.names("persistentvolumeclaims") == []
    assert cluster.names("persistentvolumes") == []


def select(cluster: SmallCluster, node: str) -> None:
    annotations = {"volume.kubernetes.io/selected-node": node}
    cluster.ask("PATCH", f"{CLAIMS}/c", {"metadata": {"annotations": annotations}})


def test_some_volumes_take_longer_until_a_time() -> None:
    cluster = SmallCluster()
    ControllerManager(cluster.client("controller-manager"), cluster.model, ("volumes",)).start()
    views = SharedViews(client := cluster.client("provisioner"))
    Provisioner(client, views, slow_until=10.0)
    views.start()
    body = {"metadata": {"name": "now"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"}
    cluster.ask("POST", CLASSES, body)
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "now", "resources": {"requests": {"storage": "2Gi"}}}
    for number in range(20):
        cluster.ask("POST", CLAIMS, {"metadata": {"name": f"c-{number}"}, "spec": spec})
    cluster.run(15.0)
    assert 0 < len(cluster.all("persistentvolumes")) < 20
    cluster.run(20.0)
    assert len(cluster.all("persistentvolumes")) == 20

"""What becomes of nodes that are silent or gone, and of their pods."""

from typing import Any

import pytest

from tests.worlds.actors.kubelet import Kubelet
from tests.worlds.actors.small_cluster import SmallCluster
from tests.worlds.controllers.manager import ControllerManager

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def cluster() -> SmallCluster:
    made = SmallCluster()
    ControllerManager(made.client("controller-manager"), made.model, ("node-lifecycle", "pod-collection")).start()
    return made


def kubelet(cluster: SmallCluster, name: str) -> Kubelet:
    node = {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}}}
    made = Kubelet(cluster.world, [cluster.server], node, is_tainted_first=True)
    made.start()
    return made


def create_pod(cluster: SmallCluster, name: str, node: str, **spec: Any) -> None:
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i:1"}], **spec}
    cluster.ask("POST", PODS, {"metadata": {"name": name}, "spec": spec})


def taints(cluster: SmallCluster, name: str) -> list[tuple[str, str]]:
    found = cluster.ask("GET", f"/api/v1/nodes/{name}")["spec"].get("taints", ())
    return [(taint["key"].removeprefix("node.kubernetes.io/"), taint["effect"]) for taint in found]


def test_a_new_node_loses_its_taint_once_it_is_ready(cluster: SmallCluster) -> None:
    kubelet(cluster, "n")
    cluster.run(0.1)
    assert taints(cluster, "n") == [("not-ready", "NoSchedule")]
    cluster.run(20.0)
    assert taints(cluster, "n") == []


def test_a_cordoned_node_has_a_taint(cluster: SmallCluster) -> None:
    kubelet(cluster, "n")
    cluster.run(20.0)
    cluster.ask("PATCH", "/api/v1/nodes/n", {"spec": {"unschedulable": True}})
    cluster.run(10.0)
    assert taints(cluster, "n") == [("unschedulable", "NoSchedule")]


def test_a_silent_node_is_unreachable_and_loses_its_pods(cluster: SmallCluster) -> None:
    silent, _ = kubelet(cluster, "n"), kubelet(cluster, "other")
    cluster.run(20.0)
    toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 30}
    create_pod(cluster, "a", "n", tolerations=[toleration])
    create_pod(cluster, "b", "n")
    cluster.run(20.0)
    silent.stop()
    cluster.run(60.0)
    assert taints(cluster, "n") == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
    cluster.run(45.0)
    pods = {pod["metadata"]["name"]: pod for pod in cluster.all("pods")}
    assert "deletionTimestamp" in pods["a"]["metadata"]
    assert "deletionTimestamp" not in pods["b"]["metadata"]  # it tolerates the taint for five minutes
    assert pods["b"]["status"]["conditions"][-1]["status"] == "False"
    kubelet(cluster, "n")
    cluster.run(60.0)
    assert taints(cluster, "n") == []
    assert cluster.names("pods") == ["b"]


def test_pods_of_a_node_that_is_gone_go(cluster: SmallCluster) -> None:
    gone = kubelet(cluster, "n")
    cluster.run(20.0)
    create_pod(cluster, "a", "n")
    cluster.run(10.0)
    gone.stop()
    cluster.ask("DELETE", "/api/v1/nodes/n")
    cluster.run(30.0)
    assert cluster.names("pods") == ["a"]
    cluster.run(60.0)
    assert cluster.names("pods") == []


def test_a_pod_that_was_made_again_on_no_node_stays(cluster: SmallCluster) -> None:
    kubelet(cluster, "n")
    cluster.run(20.0)
    cluster.ask("PATCH", "/api/v1/nodes/n", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
    create_pod(cluster, "a", "n", tolerations=[{"key": "k", "operator": "Exists", "tolerationSeconds": 5}])
    cluster.run(2.0)
    cluster.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    cluster.ask("POST", PODS, {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
    cluster.run(10.0)
    assert cluster.names("pods") == ["a"]

"""Machines, the autoscaler, the second scheduler, and people: what each does to a cluster."""

from typing import Any

import pytest

from tests.worlds.actors import people
from tests.worlds.actors.autoscaler import Autoscaler
from tests.worlds.actors.machines import Machines, MachineTroubles
from tests.worlds.actors.people import People
from tests.worlds.actors.second_scheduler import NAME, SecondScheduler
from tests.worlds.actors.small_cluster import SmallCluster

PODS = "/api/v1/namespaces/default/pods"
Object = dict[str, Any]


def node(name: str, cpu: str = "1") -> Object:
    amounts = {"cpu": cpu, "memory": "4Gi", "pods": "10"}
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": amounts}}


def create_pod(cluster: SmallCluster, name: str, cpu: str = "100m", **spec: Any) -> None:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu}}}
    cluster.ask("POST", PODS, {"metadata": {"name": name}, "spec": {"containers": [container], **spec}})


def say_unschedulable(cluster: SmallCluster, name: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    cluster.ask("PATCH", f"{PODS}/{name}/status", {"status": {"conditions": [condition]}})


@pytest.fixture
def cluster() -> SmallCluster:
    return SmallCluster()


@pytest.fixture
def machines(cluster: SmallCluster) -> Machines:
    made = Machines(cluster.world, [cluster.server], taints_first=False)
    made.add(node("n"))
    cluster.run(10.0)
    return made


def test_a_machine_that_comes_back_has_another_node_of_its_name(cluster: SmallCluster, machines: Machines) -> None:
    (first,) = cluster.all("nodes")
    machines.remove("n")
    cluster.ask("DELETE", "/api/v1/nodes/n")
    machines.add(node("n"))
    cluster.run(10.0)
    (second,) = cluster.all("nodes")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]


@pytest.mark.parametrize("seed", range(5))
def test_after_all_troubles_each_machine_has_its_node(seed: int) -> None:
    cluster = SmallCluster(seed)
    machines = Machines(cluster.world, [cluster.server], taints_first=False)
    for number in range(4):
        machines.add(node(f"n-{number}"))
    MachineTroubles(machines, cluster.client("cloud"), until=300.0).start()
    cluster.run(400.0)
    assert sorted(machines.names) == cluster.names("nodes") == [f"n-{number}" for number in range(4)]
    conditions = [condition for each in cluster.all("nodes") for condition in each["status"]["conditions"]]
    assert {condition["status"] for condition in conditions if condition["type"] == "Ready"} == {"True"}


def autoscaler(cluster: SmallCluster, machines: Machines, until: float) -> None:
    Autoscaler(cluster.client("autoscaler"), machines, node("template"), 2, until).start()


def test_adds_a_machine_for_pods_that_wait(cluster: SmallCluster, machines: Machines) -> None:
    autoscaler(cluster, machines, 1000.0)
    for name, cpu in (("a", "600m"), ("b", "600m"), ("c", "600m"), ("large", "7")):
        create_pod(cluster, name, cpu)
        say_unschedulable(cluster, name)
    cluster.run(90.0)
    assert cluster.names("nodes") == ["added-1", "added-2", "n"]  # at most two, and none for what does not fit


def test_removes_an_idle_machine_that_it_added(cluster: SmallCluster, machines: Machines) -> None:
    autoscaler(cluster, machines, 1000.0)
    create_pod(cluster, "a")
    say_unschedulable(cluster, "a")
    cluster.run(90.0)
    assert cluster.names("nodes") == ["added-1", "n"]
    cluster.ask("DELETE", f"{PODS}/a")
    cluster.run(180.0)
    assert cluster.names("nodes") == ["n"]
    assert machines.names == ["n"]


def test_the_second_scheduler_binds_its_pods_where_they_fit(cluster: SmallCluster, machines: Machines) -> None:
    SecondScheduler(cluster.client(NAME)).start()
    create_pod(cluster, "own", "900m", schedulerName=NAME)
    create_pod(cluster, "other", "900m")
    cluster.run(20.0)
    create_pod(cluster, "late", "900m", schedulerName=NAME)
    cluster.run(20.0)
    nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in cluster.all("pods")}
    assert nodes == {"own": "n", "other": None, "late": None}
    cluster.ask("DELETE", f"{PODS}/own", {"gracePeriodSeconds": 0})
    cluster.run(20.0)
    assert cluster.ask("GET", f"{PODS}/late")["spec"]["nodeName"] == "n"


@pytest.mark.parametrize("seed", range(5))
def test_people_keep_no_pods_from_nodes_in_the_end(seed: int) -> None:
    cluster = SmallCluster(seed)
    for number in range(4):
        cluster.ask("POST", "/api/v1/nodes", node(f"n-{number}"))
        create_pod(cluster, f"pod-{number}", nodeName=f"n-{number}")
        create_pod(cluster, f"gated-{number}", schedulingGates=[{"name": "example.com/gate"}])
    revision = cluster.model.etcd.revision
    People(cluster.client("people"), until=300.0).start()
    cluster.run(330.0)
    assert cluster.model.etcd.revision > revision
    for each in cluster.all("nodes"):
        assert "unschedulable" not in each["spec"]
        assert not any(taint["key"] == people._OWN_TAINT for taint in each["spec"].get("taints", ()))

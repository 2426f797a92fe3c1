"""A kubelet: what becomes of its node, its lease and its pods."""

from typing import Any

import pytest

from tests.worlds.actors.kubelet import VOLUME_LIMIT, Kubelet
from tests.worlds.actors.small_cluster import SmallCluster

PODS = "/api/v1/namespaces/default/pods"
Object = dict[str, Any]


def node(**amounts: str) -> Object:
    allocatable = {"cpu": "1", "memory": "1Gi", "pods": "10", **amounts}
    labels = {"kubernetes.io/hostname": "n", "zone": "a"}
    return {"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": allocatable}}


def create_pod(cluster: SmallCluster, name: str, cpu: str = "100m", **spec: Any) -> None:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu}}, **spec.pop("container", {})}
    spec = {"nodeName": "n", "containers": [container], **spec}
    cluster.ask("POST", PODS, {"metadata": {"name": name}, "spec": spec})


@pytest.fixture
def cluster() -> SmallCluster:
    return SmallCluster()


@pytest.fixture
def kubelet(cluster: SmallCluster) -> Kubelet:
    made = Kubelet(cluster.world, [cluster.server], node())
    made.start()
    cluster.run(10.0)
    return made


def conditions(thing: Object) -> dict[str, str]:
    return {entry["type"]: entry["status"] for entry in thing["status"].get("conditions", ())}


def pod(cluster: SmallCluster, name: str = "a") -> Object:
    found: Object = cluster.ask("GET", f"{PODS}/{name}")
    return found


def test_registers_a_node_that_becomes_ready(cluster: SmallCluster) -> None:
    Kubelet(cluster.world, [cluster.server], node(), is_tainted_first=True).start()
    cluster.run(0.1)
    (registered,) = cluster.all("nodes")
    assert conditions(registered)["Ready"] == "False"
    assert registered["spec"]["taints"][0]["key"] == "node.kubernetes.io/not-ready"
    cluster.run(10.0)
    assert conditions(cluster.all("nodes")[0])["Ready"] == "True"


def test_renews_its_lease(cluster: SmallCluster, kubelet: Kubelet) -> None:
    def renewed() -> str:
        (lease,) = cluster.all("leases", "coordination.k8s.io")
        return str(lease["spec"]["renewTime"])

    first = renewed()
    cluster.run(30.0)
    assert renewed() > first
    kubelet.stop()
    last = renewed()
    cluster.run(30.0)
    assert renewed() == last


def test_starts_a_pod(cluster: SmallCluster, kubelet: Kubelet) -> None:
    create_pod(cluster, "a")
    cluster.run(10.0)
    assert pod(cluster)["status"]["phase"] == "Running"
    assert conditions(pod(cluster))["Ready"] == "True"


def test_pods_that_end_succeed_or_fail(cluster: SmallCluster, kubelet: Kubelet) -> None:
    for number in range(10):
        create_pod(cluster, f"pod-{number}", restartPolicy="Never")
    cluster.run(300.0)
    assert {each["status"]["phase"] for each in cluster.all("pods")} == {"Succeeded", "Failed"}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"cpu": "950m"}, "OutOfcpu"),
        ({"nodeSelector": {"zone": "b"}}, "NodeAffinity"),
        ({"container": {"ports": [{"containerPort": 1, "hostPort": 80}]}}, "NodePorts"),
    ],
)
def test_refuses_what_cannot_run(cluster: SmallCluster, kubelet: Kubelet, spec: Object, reason: str) -> None:
    create_pod(cluster, "first", container={"ports": [{"containerPort": 1, "hostPort": 80}]})
    cluster.run(10.0)
    create_pod(cluster, "a", **spec)
    cluster.run(10.0)
    assert (pod(cluster)["status"]["phase"], pod(cluster)["status"]["reason"]) == ("Failed", reason)
    assert pod(cluster, "first")["status"]["phase"] == "Running"


def test_takes_a_pod_where_others_have_ended(cluster: SmallCluster, kubelet: Kubelet) -> None:
    create_pod(cluster, "job", "800m", restartPolicy="Never")
    cluster.run(300.0)
    create_pod(cluster, "a", "800m")
    cluster.run(10.0)
    assert pod(cluster)["status"]["phase"] == "Running"


def test_ends_a_deleted_pod_within_its_grace_period(cluster: SmallCluster, kubelet: Kubelet) -> None:
    create_pod(cluster, "a")
    cluster.run(10.0)
    cluster.ask("DELETE", f"{PODS}/a")
    assert pod(cluster)["metadata"]["deletionGracePeriodSeconds"] == 30
    cluster.run(40.0)
    assert cluster.names("pods") == []


def test_a_pod_of_the_same_name_is_another_pod(cluster: SmallCluster, kubelet: Kubelet) -> None:
    create_pod(cluster, "a", "800m")
    cluster.run(10.0)
    cluster.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    create_pod(cluster, "a", "900m")
    cluster.run(10.0)
    assert pod(cluster)["status"]["phase"] == "Running"


def test_evicts_the_pod_of_the_least_priority(cluster: SmallCluster, kubelet: Kubelet) -> None:
    cluster.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 5})
    create_pod(cluster, "a")
    create_pod(cluster, "b", priorityClassName="high")
    cluster.run(10.0)
    kubelet.evict()
    cluster.run(10.0)
    assert (pod(cluster)["status"]["phase"], pod(cluster)["status"]["reason"]) == ("Failed", "Evicted")
    assert pod(cluster, "b")["status"]["phase"] == "Running"
    assert conditions(cluster.all("nodes")[0])["MemoryPressure"] == "True"
    cluster.run(70.0)
    assert conditions(cluster.all("nodes")[0])["MemoryPressure"] == "False"


def test_a_kubelet_that_starts_again_goes_on_with_its_node_and_pods(cluster: SmallCluster, kubelet: Kubelet) -> None:
    create_pod(cluster, "a")
    cluster.run(10.0)
    kubelet.stop()
    create_pod(cluster, "b")
    cluster.ask("DELETE", f"{PODS}/a")
    cluster.run(60.0)
    assert cluster.names("pods") == ["a", "b"]
    Kubelet(cluster.world, [cluster.server], node(), 2).start()
    cluster.run(20.0)
    assert cluster.names("pods") == ["b"]
    assert pod(cluster, "b")["status"]["phase"] == "Running"


def test_says_how_many_volumes_can_be_attached(cluster: SmallCluster) -> None:
    limited = node()
    limited["metadata"]["annotations"] = {VOLUME_LIMIT: "3"}
    Kubelet(cluster.world, [cluster.server], limited).start()
    cluster.run(10.0)
    (csi_node,) = cluster.all("csinodes", "storage.k8s.io")
    assert csi_node["spec"]["drivers"][0]["allocatable"] == {"count": 3}


def test_devices_are_there_once_their_plugin_has_registered(cluster: SmallCluster) -> None:
    def gpus() -> object:
        return cluster.all("nodes")[0]["status"]["allocatable"].get("example.com/gpu")

    made = Kubelet(cluster.world, [cluster.server], node(**{"example.com/gpu": "2"}))
    assert made.withhold("example.com/gpu") == "2"
    made.start()
    cluster.run(10.0)
    assert gpus() in (None, "0")
    made.offer("example.com/gpu", "2")
    cluster.run(10.0)
    assert gpus() == "2"
    made.offer("example.com/gpu", "0")
    cluster.run(10.0)
    assert gpus() == "0"


def resources(thing: Object) -> list[tuple[str, str]]:
    """Return the cpu that a kubelet has allocated to each container, and that each has."""
    statuses = thing["status"].get("containerStatuses", ())
    return [(each["allocatedResources"]["cpu"], each["resources"]["requests"]["cpu"]) for each in statuses]


def test_reports_what_containers_have_while_they_are_resized() -> None:
    cluster = SmallCluster(minor=33)
    made = Kubelet(cluster.world, [cluster.server], node())
    made.report_resources()
    made.start()
    cluster.run(10.0)
    create_pod(cluster, "a", "100m")
    cluster.run(10.0)
    seen = [resources(pod(cluster))]
    change = {"name": "c", "resources": {"requests": {"cpu": "50m"}}}
    cluster.ask("PATCH", f"{PODS}/a/resize", {"spec": {"containers": [change]}})
    for _ in range(100):
        cluster.run(0.1)
        if resources(pod(cluster)) != seen[-1]:
            seen.append(resources(pod(cluster)))
    assert seen == [[("100m", "100m")], [("50m", "100m")], [("50m", "50m")]]


def test_reports_other_start_times_for_pods_that_come_at_once_and_keeps_them(cluster: SmallCluster) -> None:
    def start_times() -> list[str]:
        return [each["status"]["startTime"] for each in cluster.all("pods")]

    first = Kubelet(cluster.world, [cluster.server], node())
    first.report_start_times()
    first.start()
    cluster.run(10.0)
    for name in ("a", "b", "c"):
        create_pod(cluster, name)
    cluster.run(10.0)
    started = start_times()
    assert len({*started}) == 3
    assert {each["status"]["phase"] for each in cluster.all("pods")} == {"Running"}
    first.stop()
    second = Kubelet(cluster.world, [cluster.server], node(), 2)
    second.report_start_times()
    second.start()
    cluster.run(20.0)
    assert start_times() == started


def test_reports_the_start_of_a_pod_before_it_runs(cluster: SmallCluster) -> None:
    made = Kubelet(cluster.world, [cluster.server], node())
    made.report_start_times()
    made.start()
    cluster.run(10.0)
    create_pod(cluster, "a")
    phases = []
    for _ in range(100):
        cluster.run(0.1)
        if "startTime" in pod(cluster)["status"]:
            phases.append(pod(cluster)["status"]["phase"])
    assert [*dict.fromkeys(phases)] == ["Pending", "Running"]


def test_says_nothing_of_what_containers_have_where_no_pods_are_resized(
    cluster: SmallCluster, kubelet: Kubelet
) -> None:
    create_pod(cluster, "a")
    cluster.run(10.0)
    assert resources(pod(cluster)) == []

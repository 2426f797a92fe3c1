"""ReplicaSets, Jobs and DaemonSets: how many pods there are, whatever is deleted or fails."""

from typing import Any

import pytest

from tests.worlds.actors.small_cluster import SmallCluster
from tests.worlds.controllers.manager import ControllerManager

PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/replicasets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
DAEMONS = "/apis/apps/v1/namespaces/default/daemonsets"
SPEC: dict[str, Any] = {"containers": [{"name": "c", "image": "i:1"}]}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": SPEC}
SELECTOR = {"matchLabels": {"app": "x"}}


@pytest.fixture
def cluster() -> SmallCluster:
    made = SmallCluster()
    names = ("daemon-sets", "jobs", "replica-sets")
    ControllerManager(made.client("controller-manager"), made.model, names).start()
    return made


def create_set(cluster: SmallCluster, replicas: int) -> None:
    spec = {"replicas": replicas, "selector": SELECTOR, "template": TEMPLATE}
    cluster.ask("POST", SETS, {"metadata": {"name": "set"}, "spec": spec})
    cluster.run(20.0)


def create_job(cluster: SmallCluster, **spec: int) -> None:
    template = {**TEMPLATE, "spec": {**SPEC, "restartPolicy": "Never"}}
    cluster.ask("POST", JOBS, {"metadata": {"name": "job"}, "spec": {"template": template, **spec}})
    cluster.run(20.0)


def create_node(cluster: SmallCluster, name: str, **spec: Any) -> None:
    cluster.ask("POST", "/api/v1/nodes", {"metadata": {"name": name}, "spec": spec})


def finish(cluster: SmallCluster, phase: str) -> None:
    """End all pods that run."""
    for pod in cluster.all("pods"):
        if pod["status"]["phase"] == "Pending":
            cluster.ask("PATCH", f"{PODS}/{pod['metadata']['name']}/status", {"status": {"phase": phase}})


def delete_a_pod(cluster: SmallCluster) -> None:
    cluster.ask("DELETE", f"{PODS}/{cluster.names('pods')[0]}")


def test_a_set_has_as_many_pods_as_replicas(cluster: SmallCluster) -> None:
    create_set(cluster, 3)
    assert len(cluster.all("pods")) == 3
    delete_a_pod(cluster)
    cluster.run(20.0)
    assert len(cluster.all("pods")) == 3
    cluster.ask("PATCH", f"{SETS}/set", {"spec": {"replicas": 1}})
    cluster.run(20.0)
    assert len(cluster.all("pods")) == 1
    assert cluster.all("replicasets", "apps")[0]["status"]["replicas"] == 1


def test_a_set_replaces_a_pod_that_failed(cluster: SmallCluster) -> None:
    create_set(cluster, 1)
    finish(cluster, "Failed")
    cluster.run(20.0)
    assert sorted(pod["status"]["phase"] for pod in cluster.all("pods")) == ["Failed", "Pending"]


def test_a_set_that_is_deleted_takes_its_pods_along(cluster: SmallCluster) -> None:
    create_set(cluster, 3)
    cluster.ask("DELETE", f"{SETS}/set")
    cluster.run(20.0)
    assert cluster.all("pods") == []


def test_a_job_ends_when_enough_pods_succeeded(cluster: SmallCluster) -> None:
    create_job(cluster, parallelism=2, completions=3)
    assert len(cluster.all("pods")) == 2
    finish(cluster, "Succeeded")
    cluster.run(20.0)
    assert len(cluster.all("pods")) == 3
    finish(cluster, "Succeeded")
    cluster.run(20.0)
    (job,) = cluster.all("jobs", "batch")
    assert [condition["type"] for condition in job["status"]["conditions"]] == ["Complete"]
    assert len(cluster.all("pods")) == 3


def test_a_job_gives_up_after_too_many_failures(cluster: SmallCluster) -> None:
    create_job(cluster, backoffLimit=1)
    for _ in range(2):
        finish(cluster, "Failed")
        cluster.run(60.0)
    (job,) = cluster.all("jobs", "batch")
    assert [condition["type"] for condition in job["status"]["conditions"]] == ["Failed"]
    assert len(cluster.all("pods")) == 2


def test_a_daemon_set_has_a_pod_for_each_node_that_takes_it(cluster: SmallCluster) -> None:
    create_node(cluster, "n-1")
    create_node(cluster, "n-2", taints=[{"key": "own", "effect": "NoSchedule"}])
    create_node(cluster, "n-3", unschedulable=True)
    cluster.ask("POST", DAEMONS, {"metadata": {"name": "daemon"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}})
    cluster.run(20.0)
    assert targets(cluster) == ["n-1", "n-3"]
    create_node(cluster, "n-4")
    cluster.ask("DELETE", "/api/v1/nodes/n-3")
    cluster.run(20.0)
    assert targets(cluster) == ["n-1", "n-4"]


def test_a_daemon_set_replaces_a_pod_that_failed(cluster: SmallCluster) -> None:
    create_node(cluster, "n-1")
    cluster.ask("POST", DAEMONS, {"metadata": {"name": "daemon"}, "spec": {"selector": SELECTOR, "template": TEMPLATE}})
    cluster.run(20.0)
    before = cluster.names("pods")
    finish(cluster, "Failed")
    cluster.run(20.0)
    assert len(cluster.names("pods")) == 1
    assert cluster.names("pods") != before


def targets(cluster: SmallCluster) -> list[str]:
    """The nodes that the pods name."""
    affinities = [pod["spec"]["affinity"]["nodeAffinity"] for pod in cluster.all("pods")]
    required = [each["requiredDuringSchedulingIgnoredDuringExecution"] for each in affinities]
    return sorted(each["nodeSelectorTerms"][0]["matchFields"][0]["values"][0] for each in required)

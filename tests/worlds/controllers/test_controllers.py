"""Controllers beside the API server: owners' dependents, and budgets."""

import json
from random import Random
from typing import Any

import pytest

from tests.worlds.api_server.messages import Request, Response
from tests.worlds.api_server.server import ApiServer
from tests.worlds.controllers.disruption import DisruptionController
from tests.worlds.controllers.garbage_collection import GarbageCollector

Object = dict[str, Any]
SETS = "/apis/apps/v1/namespaces/default/replicasets"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
TEMPLATE: Object = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main", "image": "i"}]}}


class Cluster:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0
        self.server = ApiServer(lambda: self.now, Random(1))
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
        owner = self.ask("POST", SETS, {"metadata": {"name": "set"}, "spec": spec})
        self.reference = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": owner["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip

    def ask(self, method: str, path: str, body: Object | None = None) -> Any:
        encoded = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/merge-patch+json"}
        answer = self.server.handle(Request(method, path, {}, headers, encoded))
        assert isinstance(answer, Response)
        return answer.json()

    def create_pod(self, name: str) -> None:
        metadata = {"name": name, "labels": {"app": "x"}, "ownerReferences": [self.reference]}
        self.ask("POST", PODS, {"metadata": metadata, "spec": {**TEMPLATE["spec"], "nodeName": "n"}})
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.ask("PATCH", f"{PODS}/{name}/status", {"status": status})

    def pods(self) -> list[Object]:
        found: list[Object] = self.ask("GET", PODS)["items"]
        return found

    def collect(self) -> None:
        collector = GarbageCollector(self.server.registry)
        while collector.step():
            pass


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    for name in "abc":
        made.create_pod(name)
    return made


def test_dependents_go_after_their_owner(cluster: Cluster) -> None:
    cluster.ask("DELETE", f"{SETS}/set")
    cluster.collect()
    assert all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods())


def test_dependents_of_an_owner_with_another_uid_go(cluster: Cluster) -> None:
    cluster.ask("DELETE", f"{SETS}/set")
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    cluster.ask("POST", SETS, {"metadata": {"name": "set"}, "spec": spec})
    cluster.collect()
    assert all("deletionTimestamp" in pod["metadata"] for pod in cluster.pods())


def test_orphans_stay_without_their_owner(cluster: Cluster) -> None:
    cluster.ask("DELETE", f"{SETS}/set", {"propagationPolicy": "Orphan"})
    cluster.collect()
    assert cluster.ask("GET", f"{SETS}/set")["code"] == 404
    assert len(cluster.pods()) == 3
    assert not any("ownerReferences" in pod["metadata"] for pod in cluster.pods())


def test_in_the_foreground_the_owner_goes_last(cluster: Cluster) -> None:
    cluster.ask("DELETE", f"{SETS}/set", {"propagationPolicy": "Foreground"})
    cluster.collect()
    assert cluster.ask("GET", f"{SETS}/set")["metadata"]["finalizers"] == ["foregroundDeletion"]
    for name in "abc":
        cluster.ask("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})
    cluster.collect()
    assert cluster.ask("GET", f"{SETS}/set")["code"] == 404


@pytest.mark.parametrize(
    ("spec", "desired", "allowed"),
    [
        ({"minAvailable": 2}, 2, 1),
        ({"minAvailable": "50%"}, 2, 1),
        ({"maxUnavailable": 1}, 2, 1),
        ({"maxUnavailable": "34%"}, 1, 2),
        ({"minAvailable": 5}, 5, 0),
    ],
)
def test_a_budget_counts_the_healthy_pods(cluster: Cluster, spec: Object, desired: int, allowed: int) -> None:
    selector = {"matchLabels": {"app": "x"}}
    cluster.ask("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": {**spec, "selector": selector}})
    DisruptionController(cluster.server.registry, lambda: cluster.now).step()
    status = cluster.ask("GET", f"{BUDGETS}/b")["status"]
    assert (status["currentHealthy"], status["expectedPods"]) == (3, 3)
    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (desired, allowed)


def test_an_evicted_pod_counts_against_the_budget_at_once(cluster: Cluster) -> None:
    selector = {"matchLabels": {"app": "x"}}
    cluster.ask("POST", BUDGETS, {"metadata": {"name": "b"}, "spec": {"minAvailable": 2, "selector": selector}})
    controller = DisruptionController(cluster.server.registry, lambda: cluster.now)
    controller.step()
    assert cluster.ask("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}})["status"] == "Success"
    assert cluster.ask("POST", f"{PODS}/b/eviction", {"metadata": {"name": "b"}})["code"] == 429
    controller.step()
    assert cluster.ask("POST", f"{PODS}/b/eviction", {"metadata": {"name": "b"}})["code"] == 429

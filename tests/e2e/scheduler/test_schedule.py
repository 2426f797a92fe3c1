"""The whole scheduler, without kube-scheduler, on a real API server: pods are bound, wait, wake up, and preempt."""

from collections.abc import Iterator

import pytest

from tests.e2e.support.api import API
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.whole_scheduler import scheduling
from tests.e2e.support.releases import both_releases, deciding_as
from tests.e2e.support.waiting import wait_until

CONTROLLER = "default-scheduler"
# Why preemption does not help a pod that is larger than each node.
TOO_LARGE = {
    31: "1 No preemption victims found for incoming pod.",
    37: "1 Preemption is not helpful for scheduling.",
}

pytestmark = both_releases


@pytest.fixture(scope="module")
def running(shared_control_plane: ControlPlane, minor: int) -> Iterator[ControlPlane]:
    with scheduling(shared_control_plane, options=[deciding_as(minor)]) as process:
        yield shared_control_plane
        process.require_running()


@pytest.fixture
def api(running: ControlPlane, empty_cluster: ControlPlane) -> API:
    return empty_cluster.api


def node_of(api: API, name: str) -> str:
    found: str = api.get("Pod", name, namespace="default")["spec"].get("nodeName", "")
    return found


def bound(api: API, name: str) -> str:
    return wait_until(lambda: node_of(api, name), f"{name} to be bound")


def condition(api: API, name: str) -> Object:
    conditions = api.get("Pod", name, namespace="default").get("status", {}).get("conditions", [])
    return next((found for found in conditions if found["type"] == "PodScheduled"), {})


def refused(api: API, name: str) -> Object:
    return wait_until(lambda: condition(api, name), f"{name} to be refused")


def events(api: API, name: str) -> list[Object]:
    return [event for event in api.list_all("Event") if event["involvedObject"]["name"] == name]


def test_pods_are_bound_to_nodes_with_room_and_none_is_overfull(api: API) -> None:
    api.create(*[node(f"n{number}", cpu="2", pods="30") for number in range(5)])
    api.create(*[pod(f"p{number}", requests={"cpu": "100m"}) for number in range(100)])

    def all_bound() -> list[str]:
        nodes = [found["spec"].get("nodeName", "") for found in api.list_all("Pod")]
        return nodes if all(nodes) else []

    nodes = wait_until(all_bound, "all pods to be bound")
    assert {name: nodes.count(name) for name in nodes} == {f"n{number}": 20 for number in range(5)}


def test_users_see_why_a_pod_waits_and_that_it_was_bound(api: API, minor: int) -> None:
    api.create(node("small", cpu="1"))
    api.create(pod("big", requests={"cpu": "3"}))
    text = f"0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: {TOO_LARGE[minor]}"
    found = refused(api, "big")
    assert (found["status"], found["reason"], found["message"]) == ("False", "Unschedulable", text)
    api.create(node("large"))
    assert bound(api, "big") == "large"
    wait_until(lambda: len(events(api, "big")) == 2, "the events")
    told = {(event["type"], event["reason"], event["action"], event["message"]) for event in events(api, "big")}
    assert told == {
        ("Warning", "FailedScheduling", "Scheduling", text),
        ("Normal", "Scheduled", "Binding", "Successfully assigned default/big to large"),
    }
    assert {event["reportingComponent"] for event in events(api, "big")} == {CONTROLLER}


def test_without_nodes_a_pod_waits_for_the_first(api: API) -> None:
    api.create(pod("first"))
    assert refused(api, "first")["message"] == "no nodes available to schedule pods"
    api.create(node("late"))
    assert bound(api, "first") == "late"


def test_a_gated_pod_waits_until_its_gate_is_gone(api: API) -> None:
    api.create(node("a"))
    [created] = api.create(
        pod("gated", schedulingGates=[{"name": "example.com/wait"}]),
    )
    api.create(pod("other"))
    assert bound(api, "other") == "a"
    assert node_of(api, "gated") == ""
    api.patch(created, patch={"spec": {"schedulingGates": None}})
    assert bound(api, "gated") == "a"


def test_a_pod_leaves_and_another_takes_its_place(api: API) -> None:
    api.create(node("a", cpu="1"))
    [first] = api.create(pod("first", requests={"cpu": "1"}))
    assert bound(api, "first") == "a"
    api.create(pod("second", requests={"cpu": "1"}))
    refused(api, "second")
    api.delete(first)
    assert bound(api, "second") == "a"


def test_an_important_pod_displaces_one_other_and_runs_there(api: API) -> None:
    api.create(*[node(f"n{number}", cpu="1") for number in range(4)])
    api.create(*[pod(f"low{number}", requests={"cpu": "1"}) for number in range(4)])
    for number in range(4):
        bound(api, f"low{number}")
    api.create(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        }
    )
    api.create(pod("important", requests={"cpu": "1"}, priorityClassName="high"))
    where = bound(api, "important")
    left = {found["metadata"]["name"] for found in api.list_all("Pod")}
    assert len(left) == 4
    assert "important" in left
    [victim] = {f"low{number}" for number in range(4)} - left
    wait_until(lambda: any(event["reason"] == "Preempted" for event in events(api, victim)), "the victim's event")
    [preempted] = [event for event in events(api, victim) if event["reason"] == "Preempted"]
    uid = api.get("Pod", "important", namespace="default")["metadata"]["uid"]
    assert preempted["message"] == f"Preempted by pod {uid} on node {where}"

"""A stock kube-scheduler whose own plugins are off places pods through the service."""

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support.mixed_cluster import mixed_nodes, mixed_pods
from tests.e2e.support.objects import node, pod
from tests.e2e.support.placement_rules import violations
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.releases import both_releases, deciding_as
from tests.e2e.support.waiting import wait_until

ONE_CPU = {"cpu": "1"}


@both_releases
@pytest.mark.parametrize("node_cache_capable", [True, False], ids=["names", "whole nodes"])
def test_every_pod_is_bound_where_the_service_said_and_nothing_is_overfull(
    empty_cluster: ControlPlane, tmp_path: Path, minor: int, node_cache_capable: bool
) -> None:
    api = empty_cluster.api
    api.create(*mixed_nodes())
    with (
        Service(tmp_path, empty_cluster.kubeconfig, options=[deciding_as(minor)]) as service,
        schedulers.running(empty_cluster, schedulers.replacing(service.url, node_cache_capable=node_cache_capable)),
    ):
        api.create(*mixed_pods())
        wait_until(lambda: not api.list_all("Pod", field_selector="spec.nodeName="), "all pods to be bound", 60)

        pods = api.list_all("Pod")
        assert violations(api.list_all("Node"), pods) == []
        bound_to = {f"default/{pod['metadata']['name']}": pod["spec"]["nodeName"] for pod in pods}
        assert {line["pod"]: line["node"] for line in service.decisions("filter") if "node" in line} == bound_to
        assert {line["pod"]: line["node"] for line in service.decisions("bind")} == bound_to
        assert service.requests("filter", "ok") == service.requests("bind", "ok") == len(pods) == 500
        assert service.requests("prioritize", "ok") == 0


@both_releases
def test_a_gated_pod_keeps_the_room_that_others_expect_it_in_from_1_37_on(
    empty_cluster: ControlPlane, tmp_path: Path, minor: int
) -> None:
    """An autoscaler, say, has nominated the pod for a node (KEP-5278)."""
    api = empty_cluster.api

    def found(name: str) -> Any:
        return api.get("Pod", name, namespace="default")

    def is_decided(name: str) -> bool:
        return bool(found(name)["spec"].get("nodeName") or found(name)["status"].get("conditions"))

    api.create(node("a", cpu="1"), node("b", cpu="1"))
    [expected] = api.create(pod("expected", requests=ONE_CPU, schedulingGates=[{"name": "example.com/wait"}]))
    api.patch(expected, patch={"status": {"nominatedNodeName": "a"}}, subresource="status")
    with (
        Service(tmp_path, empty_cluster.kubeconfig, options=[deciding_as(minor)]) as service,
        schedulers.running(empty_cluster, schedulers.replacing(service.url, node_cache_capable=True)),
    ):
        api.create(pod("first", requests=ONE_CPU), pod("second", requests=ONE_CPU))
        wait_until(lambda: is_decided("first") and is_decided("second"), "decisions")
        placed = {found(name)["spec"].get("nodeName") for name in ("first", "second")}
        if minor < 37:  # gated pods do not count yet
            assert placed == {"a", "b"}
            return
        assert placed == {None, "b"}
        api.patch(expected, patch={"spec": {"schedulingGates": None}})
        assert wait_until(lambda: found("expected")["spec"].get("nodeName"), "the expected pod's node") == "a"
        assert placed == {found(name)["spec"].get("nodeName") for name in ("first", "second")}

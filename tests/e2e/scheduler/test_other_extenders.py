"""The whole scheduler on a real API server, with `extender-service serve` as the extender that it calls."""

import socket
from pathlib import Path

import pytest

from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.schedulers import beside, replacing
from tests.e2e.support.programs.service import Service
from tests.e2e.support.programs.whole_scheduler import scheduling
from tests.e2e.support.waiting import wait_until

DOWN: Object = {"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "ignorable": True}


def node_of(control_plane: ControlPlane, name: str) -> str:
    found: str = control_plane.api.get("Pod", name, namespace="default")["spec"].get("nodeName", "")
    return found


def condition(control_plane: ControlPlane, name: str) -> str:
    conditions = control_plane.api.get("Pod", name, namespace="default").get("status", {}).get("conditions", [])
    return next((str(found["message"]) for found in conditions if found["type"] == "PodScheduled"), "")


@pytest.mark.parametrize("node_cache_capable", [True, False])
def test_the_service_decides_and_binds_for_the_scheduler(
    control_plane: ControlPlane, tmp_path: Path, node_cache_capable: bool
) -> None:
    api = control_plane.api
    api.create(node("large", cpu="4"), node("small", cpu="1"))
    with Service(tmp_path, control_plane.kubeconfig, mode="replace") as service:
        configuration = replacing(service.url, node_cache_capable=node_cache_capable)
        configuration["extenders"].append(DOWN)
        with scheduling(control_plane, configuration) as process:
            api.create(pod("first", requests={"cpu": "3"}), pod("second", requests={"cpu": "1"}))
            assert wait_until(lambda: node_of(control_plane, "first"), "first to be bound") == "large"
            wait_until(lambda: node_of(control_plane, "second"), "second to be bound")
            # The scheduler's own plugins refuse no node, so these are the extender's words.
            api.create(pod("huge", requests={"cpu": "9"}))
            text = wait_until(lambda: condition(control_plane, "huge"), "huge to be refused")
            assert text.startswith("0/2 nodes are available: 2 Insufficient cpu.")
            api.create(node("huge-node", cpu="10"))
            assert wait_until(lambda: node_of(control_plane, "huge"), "huge to be bound") == "huge-node"
            process.require_running()


def test_the_scheduler_and_the_service_beside_it_preempt_together(control_plane: ControlPlane, tmp_path: Path) -> None:
    api = control_plane.api
    api.create(node("a", cpu="1"))
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    api.create(high)
    with (
        Service(tmp_path, control_plane.kubeconfig, mode="beside") as service,
        scheduling(control_plane, beside(service.url, node_cache_capable=False)) as process,
    ):
        api.create(pod("low", requests={"cpu": "1"}))
        wait_until(lambda: node_of(control_plane, "low"), "low to be bound")
        api.create(pod("important", requests={"cpu": "1"}, priorityClassName="high"))
        assert wait_until(lambda: node_of(control_plane, "important"), "important to be bound") == "a"
        assert [found["metadata"]["name"] for found in api.list_all("Pod")] == ["important"]
        process.require_running()


def test_pods_wait_while_an_extender_is_down_that_is_not_ignorable(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.create(node("a"))
    down = {**DOWN, "ignorable": False, "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}]}
    with scheduling(control_plane, {"extenders": [down]}) as process:
        gpu = {"example.com/gpu": "1"}
        with_gpu = pod("with-gpu", requests=gpu)
        with_gpu["spec"]["containers"][0]["resources"]["limits"] = gpu
        api.create(with_gpu, pod("plain"))
        assert wait_until(lambda: node_of(control_plane, "plain"), "plain to be bound") == "a"
        text = wait_until(lambda: condition(control_plane, "with-gpu"), "with-gpu to be refused")
        assert text.startswith('Post "http://127.0.0.1:1/filter": ')
        assert node_of(control_plane, "with-gpu") == ""
        process.require_running()


def test_an_extender_that_does_not_answer_does_not_hold_up_the_end(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.create(node("a"), pod("p"))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        extender = {"urlPrefix": url, "filterVerb": "filter", "httpTimeout": "60s"}
        with scheduling(control_plane, {"extenders": [extender]}) as process:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)  # the question has come
                assert process.stop(timeout_seconds=5) == 0

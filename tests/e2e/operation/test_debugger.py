"""SIGUSR2 makes the service hold its cache against the API server, and write it down."""

import os
import signal
from pathlib import Path

from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs import schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.programs.whole_scheduler import scheduling
from tests.e2e.support.waiting import wait_until


def test_the_cache_is_what_the_api_server_says(control_plane: ControlPlane, tmp_path: Path) -> None:
    api = control_plane.api
    api.create(*(node(name) for name in "abc"))
    with (
        Service(tmp_path, control_plane.kubeconfig) as service,
        schedulers.running(control_plane, schedulers.replacing(service.url, node_cache_capable=True)),
    ):
        api.create(*(pod(f"p{number}", requests={"cpu": "1"}) for number in range(6)), pod("waits", nodeName=""))
        wait_until(lambda: not api.list_all("Pod", field_selector="spec.nodeName="), "all pods to be bound")

        def compared() -> list[Object]:
            return [line for line in service.log_lines() if "compared the cache" in line["msg"]]

        def agrees() -> bool:
            # A binding may still be on its way to the watch: a difference that stays would be a fault.
            before = len(compared())
            os.kill(service.process.pid, signal.SIGUSR2)
            wait_until(lambda: len(compared()) > before, "the comparison")
            return bool(compared()[-1]["differences"] == 0)

        wait_until(agrees, "the cache to agree with the API server")
        dumped = [line["msg"] for line in service.log_lines() if line["msg"].startswith("dump: ")]
        assert {name for name in "abc" if any(f"node {name}: " in line for line in dumped)} == set("abc")
        assert any("3 nodes" in line and "7 pods" in line for line in dumped)


def test_the_scheduler_also_says_what_waits_in_its_queue_and_why(control_plane: ControlPlane) -> None:
    api = control_plane.api
    api.create(node("a", cpu="1"), pod("fits"), pod("large", requests={"cpu": "2"}))
    with scheduling(control_plane) as process:
        wait_until(lambda: "cannot schedule a pod" in process.log.read_text(), "the pod to be refused")
        wait_until(lambda: api.get("Pod", "fits", namespace="default")["spec"].get("nodeName"), "the other to be bound")

        def dumped() -> bool:
            os.kill(process.pid, signal.SIGUSR2)
            text = process.log.read_text()
            return "unschedulable: default/large" in text and '"differences": 0' in text.replace('":0', '": 0')

        wait_until(dumped, "the dump")
        process.require_running()

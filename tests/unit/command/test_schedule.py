"""`schedule` in a process of its own, with plugins that take too long. For the rest see tests/e2e/scheduler."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from extender_service.serving.watchdog import EXIT_STUCK
from tests.hostile.stubborn import Stubborn
from tests.support.event_loop import in_event_loop
from tests.support.servers.http_server import Request, Response, http_server

PROGRAM = "import sys; from extender_service.command.cli import main; sys.exit(main())"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
  - schedulerName: default-scheduler
    plugins:
      multiPoint:
        enabled: [{name: Stubborn}]
"""


class ApiServer:
    """Has twenty nodes, and pods that wait; notes what is written."""

    def __init__(self, pods: list[str]) -> None:
        metadata = {"uid": "a", "resourceVersion": "1"}
        spec = {"schedulerName": "default-scheduler", "containers": [{"name": "web", "image": "nginx"}]}
        allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10"}
        self._items: dict[str, list[Any]] = {
            "nodes": [
                {"metadata": {**metadata, "name": f"n{number}"}, "status": {"allocatable": allocatable}}
                for number in range(20)
            ],
            "pods": [
                {"metadata": {**metadata, "namespace": "default", "name": name, "uid": name}, "spec": spec}
                for name in pods
            ],
        }
        self.written: dict[str, Any] = {}

    async def __call__(self, request: Request, response: Response) -> None:
        if request.method != "GET":
            self.written[request.path.removeprefix("/api/v1/namespaces/default/")] = json.loads(request.body)
            await response.send_json(200, {})
        elif "watch" in request.query:
            await response.start_chunks()
            await asyncio.sleep(3600)
        else:
            items = self._items.get(request.path.rpartition("/")[2], [])
            await response.send_json(200, {"metadata": {"resourceVersion": "1"}, "items": items})


@asynccontextmanager
async def scheduling(server: ApiServer, folder: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `schedule` with the plugin Stubborn until the context ends."""
    configuration = folder / "configuration.yaml"
    configuration.write_text(CONFIGURATION)
    async with http_server(server) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, "schedule", f"--config={configuration}", f"--master={url}"),
            *("--emulated-version=1.34", "--secure-port=0", "--log-format=json"),
            f"--plugin={Stubborn.__module__}:{Stubborn.__name__}",
            *options,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(60):
                yield process
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


@in_event_loop
async def test_a_plugin_that_takes_too_long_is_an_error_of_its_pod_and_the_next_one_is_bound(tmp_path: Path) -> None:
    server = ApiServer(["slow", "next"])
    async with scheduling(server, tmp_path, "--decision-timeout=1s"):
        while not {"pods/slow/status", "pods/next/binding"} <= server.written.keys():
            await asyncio.sleep(0.05)
    [condition] = server.written["pods/slow/status"]["status"]["conditions"]
    error = 'running "Stubborn" filter plugin: the time for this decision is over (--decision-timeout)'
    assert (condition["reason"], condition["message"]) == ("SchedulerError", error)


@in_event_loop
async def test_a_plugin_that_never_returns_ends_the_process_with_its_stack(tmp_path: Path) -> None:
    async with scheduling(ApiServer(["endless"]), tmp_path, "--watchdog-timeout=1s") as process:
        _, log = await process.communicate()
    assert process.returncode == EXIT_STUCK
    last = json.loads(log.splitlines()[-1])
    assert "(--watchdog-timeout)" in last["msg"]
    assert "in filter_node" in last["stack"]

"""Which API server `schedule` takes; in a process of its own, plugins that take too long, its end, and a leader that
reads the cluster late.

For the rest see tests/e2e/scheduler.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from extender_service.command import cli
from extender_service.serving.watchdog import EXIT_STUCK
from tests.hostile.stubborn import Stubborn
from tests.support.event_loop import in_event_loop
from tests.support.servers.http_server import Handler, Request, Response, http_server

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
# The extender is asked about no pod of the tests.
WITH_EXTENDER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
extenders:
  - urlPrefix: http://127.0.0.1:1
    bindVerb: bind
    managedResources: [{name: example.com/gpu}]
"""
# Times within which no renewal is late, however busy this machine is.
LATE_READER = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
delayCacheUntilActive: true
leaderElection: {leaderElect: true, leaseDuration: 60s, renewDeadline: 30s, retryPeriod: 100ms}
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


class ReluctantApiServer(ApiServer):
    """Has bindings tried again in a minute."""

    async def __call__(self, request: Request, response: Response) -> None:
        if request.path.endswith("/binding"):
            self.written["binding"] = json.loads(request.body)
            await response.send_json(429, {"kind": "Status", "code": 429}, {"Retry-After": "60"})
        else:
            await super().__call__(request, response)


class SilentApiServer:
    """Keeps a lease, as written each time. It answers no list."""

    def __init__(self) -> None:
        self.leases: list[Any] = []
        self.lists = 0

    async def __call__(self, request: Request, response: Response) -> None:
        if "/leases" in request.path:
            await self._serve_lease(request, response)
        elif request.method == "GET":
            self.lists += 1
            await asyncio.sleep(3600)
        else:
            await response.send_json(200, {})

    async def _serve_lease(self, request: Request, response: Response) -> None:
        if request.method != "GET" and not self.write(json.loads(request.body)):
            await response.send_json(409, {"kind": "Status", "code": 409, "reason": "Conflict"})
        elif self.leases:
            await response.send_json(200, self.leases[-1])
        else:
            await response.send_json(404, {"kind": "Status", "code": 404, "reason": "NotFound"})

    def write(self, lease: Any) -> bool:
        """Write the lease, unless it has changed since it was read; return whether it was written."""
        if lease["metadata"].get("resourceVersion", "0") != str(len(self.leases)):
            return False
        version = str(len(self.leases) + 1)
        self.leases.append({**lease, "metadata": {**lease["metadata"], "resourceVersion": version}})
        return True

    def holders(self) -> list[str]:
        """Return who has held the lease, in turn; '' where it was given up."""
        return [*dict.fromkeys(lease["spec"]["holderIdentity"] for lease in self.leases)]


@asynccontextmanager
async def scheduling(
    server: Handler, folder: Path, *options: str, configuration: str = CONFIGURATION
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `schedule`, which knows the plugin Stubborn, until the context ends."""
    file = folder / "configuration.yaml"
    file.write_text(configuration)
    async with http_server(server) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, "schedule", f"--config={file}", f"--master={url}"),
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


@pytest.fixture
def kubeconfig_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file where kubectl looks for it. It cannot be read, so that a program that takes it ends at once."""
    file = tmp_path / ".kube" / "config"
    file.parent.mkdir()
    file.write_text("clusters: [")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(file))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return file


@pytest.mark.parametrize("has_configuration", [False, True])
@pytest.mark.usefixtures("kubeconfig_of_the_user")
def test_a_kubeconfig_that_is_not_named_does_not_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], has_configuration: bool
) -> None:
    file = tmp_path / "configuration.yaml"
    file.write_text(CONFIGURATION.partition("profiles:")[0])
    assert cli.main(["schedule", "--secure-port=0", *([f"--config={file}"] if has_configuration else [])]) == 1
    assert "no API server is configured" in capsys.readouterr().err


@pytest.mark.parametrize("is_configured", [False, True])
def test_a_kubeconfig_that_is_named_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kubeconfig_of_the_user: Path, is_configured: bool
) -> None:
    file = tmp_path / "configuration.yaml"
    connection = f"clientConnection: {{kubeconfig: {kubeconfig_of_the_user}}}\n"
    file.write_text(CONFIGURATION.partition("profiles:")[0] + connection)
    named = f"--config={file}" if is_configured else f"--kubeconfig={kubeconfig_of_the_user}"
    assert cli.main(["schedule", "--secure-port=0", named]) == 1
    assert f"kubeconfig {kubeconfig_of_the_user}: not valid YAML" in capsys.readouterr().err


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


@in_event_loop
async def test_the_end_waits_for_no_binding_that_waits_for_its_next_try(tmp_path: Path) -> None:
    server = ReluctantApiServer(["web"])
    async with scheduling(server, tmp_path, configuration=WITH_EXTENDER) as process:
        while "binding" not in server.written:
            await asyncio.sleep(0.05)
        process.terminate()
        terminated_at = time.monotonic()
        await process.communicate()
        assert time.monotonic() - terminated_at < 7
    assert process.returncode == 0


@asynccontextmanager
async def reading_late(server: SilentApiServer, folder: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `schedule` with delayCacheUntilActive. It leads, and reads the cluster, when the context begins."""
    async with scheduling(server, folder, configuration=LATE_READER) as process:
        while not server.lists:
            await asyncio.sleep(0.05)
        yield process


@in_event_loop
async def test_a_leader_renews_its_lease_while_it_reads_the_cluster(tmp_path: Path) -> None:
    server = SilentApiServer()
    async with reading_late(server, tmp_path):
        written = len(server.leases)
        while len(server.leases) < written + 3:
            await asyncio.sleep(0.05)
    assert len(server.holders()) == 1


@in_event_loop
async def test_a_leader_that_is_told_to_end_while_it_reads_the_cluster_gives_up_its_lease(tmp_path: Path) -> None:
    server = SilentApiServer()
    async with reading_late(server, tmp_path) as process:
        process.terminate()
        await process.communicate()
    assert process.returncode == 0
    assert server.holders()[1:] == [""]


@in_event_loop
async def test_a_leader_that_loses_its_lease_while_it_reads_the_cluster_ends_with_status_1(tmp_path: Path) -> None:
    server = SilentApiServer()
    async with reading_late(server, tmp_path) as process:
        lease = server.leases[-1]
        assert server.write({**lease, "spec": {**lease["spec"], "holderIdentity": "another"}})
        _, log = await process.communicate()
    assert process.returncode == 1
    assert json.loads(log.splitlines()[-1])["msg"] == "ending, as the leader lease is lost"
    assert server.holders()[1:] == ["another"]

"""The programs that compete: each binds the pods of default-scheduler, with an event for each."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import yaml

from bench.programs import PEERS, PROGRAM, running
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.processes import Process
from tests.support import go_programs

STOCK, STOCK_ALL_NODES, FLOOR, SCHEDULE = "stock", "stock 100 %", "floor", "schedule"
_ROOT = Path(__file__).parents[2]
_KUBE_SCHEDULER = _ROOT / "tests" / "e2e" / "controlplane"
_REQUESTS = 20_000  # a second, and at once: no program waits for a limit of its own

Start = Callable[[Path, Path, Sequence[str]], AbstractContextManager[Process]]
"""Starts a program with a kubeconfig, a directory for its files, and plugins as MODULE:CLASS."""


def _configuration(kubeconfig: Path, file: Path, **more: object) -> Path:
    configuration: Object = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _REQUESTS, "burst": _REQUESTS},
        **more,
    }
    file.write_text(yaml.safe_dump(configuration))
    return file


def _stock(
    kubeconfig: Path, directory: Path, plugins: Sequence[str] = (), **more: object
) -> AbstractContextManager[Process]:
    assert not plugins, "kube-scheduler has none of our plugins"
    configuration = _configuration(kubeconfig, directory / "stock.yaml", **more)
    program = go_programs.build(_KUBE_SCHEDULER)
    options = [f"--config={configuration}", "--secure-port=0"]
    return running(Process([program, "kube-scheduler", *options], directory / "stock.log"))


def _stock_all_nodes(kubeconfig: Path, directory: Path, plugins: Sequence[str]) -> AbstractContextManager[Process]:
    return _stock(kubeconfig, directory, plugins, percentageOfNodesToScore=100)


def _floor(kubeconfig: Path, directory: Path, _plugins: Sequence[str]) -> AbstractContextManager[Process]:
    options = [f"-kubeconfig={kubeconfig}", f"-qps={_REQUESTS}", f"-burst={_REQUESTS}"]
    return running(Process([go_programs.build(PEERS / "floor"), *options], directory / "floor.log"))


def _schedule(kubeconfig: Path, directory: Path, plugins: Sequence[str]) -> AbstractContextManager[Process]:
    return running(_schedule_process([PROGRAM], kubeconfig, directory, plugins))


@contextmanager
def profiled_schedule(kubeconfig: Path, directory: Path, plugins: Sequence[str], *, profile: Path) -> Iterator[Process]:
    """Run `schedule` with its stack sampled, which writes the file `profile` at the end."""
    profiler: list[str | Path] = [sys.executable, "-m", "bench.scheduler.profiled", profile]
    process = _schedule_process(profiler, kubeconfig, directory, plugins)
    try:
        yield process
    finally:
        process.stop()


def _schedule_process(
    program: Sequence[str | Path], kubeconfig: Path, directory: Path, plugins: Sequence[str]
) -> Process:
    enabled = [{"name": plugin.rpartition(":")[2]} for plugin in plugins]
    profiles = [{"plugins": {"multiPoint": {"enabled": enabled}}}] if plugins else []
    configuration = _configuration(kubeconfig, directory / "schedule.yaml", profiles=profiles)
    options = [f"--config={configuration}", "--secure-port=0", *(f"--plugin={plugin}" for plugin in plugins)]
    # The plugins are in the same folder as this program, which is not installed.
    return Process([*program, "schedule", *options], directory / "schedule.log", {"PYTHONPATH": str(_ROOT)})


CONTESTANTS: Mapping[str, Start] = {
    STOCK: _stock,
    STOCK_ALL_NODES: _stock_all_nodes,
    FLOOR: _floor,
    SCHEDULE: _schedule,
}
"""By name."""

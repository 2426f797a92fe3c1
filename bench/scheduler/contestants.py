"""The programs that compete: each binds the pods of default-scheduler, with an event for each."""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import yaml

from bench.programs import PEERS, PROGRAM, running
from tests.e2e.support.objects import Object
from tests.e2e.support.processes import Process
from tests.support import go_programs

STOCK, STOCK_ALL_NODES, FLOOR, SCHEDULE = "stock", "stock 100 %", "floor", "schedule"
_KUBE_SCHEDULER = Path(__file__).parents[2] / "tests" / "e2e" / "controlplane"
_REQUESTS = 20_000  # a second, and at once: no program waits for a limit of its own

Start = Callable[[Path, Path], AbstractContextManager[Process]]


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


def _stock(kubeconfig: Path, directory: Path, **more: object) -> AbstractContextManager[Process]:
    configuration = _configuration(kubeconfig, directory / "stock.yaml", **more)
    program = go_programs.build(_KUBE_SCHEDULER)
    options = [f"--config={configuration}", "--secure-port=0"]
    return running(Process([program, "kube-scheduler", *options], directory / "stock.log"))


def _stock_all_nodes(kubeconfig: Path, directory: Path) -> AbstractContextManager[Process]:
    return _stock(kubeconfig, directory, percentageOfNodesToScore=100)


def _floor(kubeconfig: Path, directory: Path) -> AbstractContextManager[Process]:
    options = [f"-kubeconfig={kubeconfig}", f"-qps={_REQUESTS}", f"-burst={_REQUESTS}"]
    return running(Process([go_programs.build(PEERS / "floor"), *options], directory / "floor.log"))


def _schedule(kubeconfig: Path, directory: Path) -> AbstractContextManager[Process]:
    configuration = _configuration(kubeconfig, directory / "schedule.yaml")
    options = ["schedule", f"--config={configuration}", "--secure-port=0"]
    return running(Process([PROGRAM, *options], directory / "schedule.log"))


@contextmanager
def profiled_schedule(kubeconfig: Path, directory: Path, *, profile: Path) -> Iterator[Process]:
    """Run `schedule` under cProfile, which writes the file `profile` at the end."""
    configuration = _configuration(kubeconfig, directory / "schedule.yaml")
    options = ["schedule", f"--config={configuration}", "--secure-port=0"]
    program: list[str | Path] = [sys.executable, "-m", "bench.scheduler.profiled", profile]
    process = Process([*program, *options], directory / "schedule.log")
    try:
        yield process
    finally:
        process.stop()


CONTESTANTS: Mapping[str, Start] = {
    STOCK: _stock,
    STOCK_ALL_NODES: _stock_all_nodes,
    FLOOR: _floor,
    SCHEDULE: _schedule,
}
"""By name. Each is given a kubeconfig and a directory for its files."""

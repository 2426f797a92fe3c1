"""The programs that compete: each binds the pods of default-scheduler, with an event for each."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.programs import PEERS, PROGRAM, running
from extender_service.config.release import OLDEST_MINOR
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.control_plane import PROGRAMS
from tests.e2e.support.programs.processes import Process
from tests.support import go_programs

STOCK, STOCK_ALL_NODES, FLOOR, SCHEDULE = "stock", "stock 100 %", "floor", "schedule"
_ROOT = Path(__file__).parents[2]
_REQUESTS = 20_000  # a second, and at once: no program waits for a limit of its own
_SAMPLER = "bench.scheduler.placement_sampler:PlacementSampler"
_SAMPLE_EVERY = 199  # placements: a prime, so that samples do not follow any pattern of the pods


@dataclass(frozen=True)
class Launch:
    """What a program is started with: a kubeconfig, a directory for its files, and the release that it is to be of.

    Plugins, as MODULE:CLASS, are for `schedule` alone. So is `samples`: whether it writes down some of its placements.
    """

    kubeconfig: Path
    directory: Path
    plugins: Sequence[str] = ()
    minor: int = OLDEST_MINOR
    samples: bool = True

    @property
    def placements(self) -> Path:
        """The file that `schedule` writes samples of its placements to, when it ends."""
        return self.directory / "placements.jsonl"

    def configuration(self, file: str, **more: object) -> Path:
        """Write a configuration, and return where it is."""
        configuration: Object = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self.kubeconfig), "qps": _REQUESTS, "burst": _REQUESTS},
            **more,
        }
        path = self.directory / file
        path.write_text(yaml.safe_dump(configuration))
        return path


Start = Callable[[Launch], AbstractContextManager[Process]]


def _stock(launch: Launch, **more: object) -> AbstractContextManager[Process]:
    assert not launch.plugins, "kube-scheduler has none of our plugins"
    program = go_programs.build(PROGRAMS[launch.minor])
    options = [f"--config={launch.configuration('stock.yaml', **more)}", "--secure-port=0"]
    return running(Process([program, "kube-scheduler", *options], launch.directory / "stock.log"))


def _stock_all_nodes(launch: Launch) -> AbstractContextManager[Process]:
    return _stock(launch, percentageOfNodesToScore=100)


def _floor(launch: Launch) -> AbstractContextManager[Process]:
    options = [f"-kubeconfig={launch.kubeconfig}", f"-qps={_REQUESTS}", f"-burst={_REQUESTS}"]
    return running(Process([go_programs.build(PEERS / "floor"), *options], launch.directory / "floor.log"))


def _schedule(launch: Launch) -> AbstractContextManager[Process]:
    return _stopped(_schedule_process([PROGRAM], launch))


def profiled_schedule(launch: Launch, *, profile: Path) -> AbstractContextManager[Process]:
    """Run `schedule` with its stack sampled, which writes the file `profile` at the end."""
    return _stopped(_schedule_process([sys.executable, "-m", "bench.scheduler.profiled", profile], launch))


@contextmanager
def _stopped(process: Process) -> Iterator[Process]:
    """Stop the process in the end. Raises RuntimeError if it has to be killed: then it has not written its files."""
    try:
        yield process
    finally:
        code = process.stop()
    if code:
        raise RuntimeError(f"schedule ended with exit code {code}")


def _schedule_process(program: Sequence[str | Path], launch: Launch) -> Process:
    launch.placements.unlink(missing_ok=True)  # of an earlier round, in which pods have the same names
    plugins, arguments = [*launch.plugins], []
    if launch.samples:
        plugins.append(_SAMPLER)
        sampler_args = {"file": str(launch.placements), "every": _SAMPLE_EVERY}
        arguments.append({"name": _class_name(_SAMPLER), "args": sampler_args})
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": _class_name(plugin)} for plugin in plugins]}},
        "pluginConfig": arguments,
    }
    configuration = launch.configuration("schedule.yaml", profiles=[profile])
    options = [f"--config={configuration}", "--secure-port=0", *(f"--plugin={plugin}" for plugin in plugins)]
    # The plugins are in the same folder as this program, which is not installed.
    return Process([*program, "schedule", *options], launch.directory / "schedule.log", {"PYTHONPATH": str(_ROOT)})


def _class_name(plugin: str) -> str:
    return plugin.rpartition(":")[2]


CONTESTANTS: Mapping[str, Start] = {
    STOCK: _stock,
    STOCK_ALL_NODES: _stock_all_nodes,
    FLOOR: _floor,
    SCHEDULE: _schedule,
}
"""By name."""

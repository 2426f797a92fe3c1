"""Let a cluster churn while watches are late and the API server is restarted: python -m tests.lag.churn --minutes 10.

Pods and nodes come, change and go; important pods preempt others; each watch event reaches the service up to a second
late; and the API server is killed and started again now and then. Then all is quiet. A run fails if

- a pod is still pending that a kube-scheduler without the service then places,
- a node is overfull, or two pods on it have one host port,
- a filter call took longer than a second, or
- a line of the service's log is an error, or names a file descriptor.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from tests.e2e.support.api import API, APIError
from tests.e2e.support.faulty_proxy import FaultyProxy
from tests.e2e.support.lagging_watches import LaggingWatches
from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs import preempting_schedulers, schedulers
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.preempting_schedulers import Mode
from tests.e2e.support.programs.service import Service
from tests.lag.settings import LAGS, PRIORITY_CLASSES
from tests.support import go_programs

MOST_FILTER_SECONDS = 1.0
_MOST_LAG_SECONDS = 1.0
_NODES = 20
_MOST_PODS = 150
_NODE_MILLI = 4000
_PAUSE_SECONDS = 0.05
_SECONDS_PER_LAG = 15.0
# A victim takes this long to end.
_ENDING_SECONDS = 2.0
# Nothing has changed for so long: twice the backoff, the lag, and some retries.
_QUIET_SECONDS = 20.0
# After a restart, kube-scheduler's own informers may come back as late as that.
_INFORMERS_SECONDS = 100.0
_MOST_SETTLING_SECONDS = 300.0
# A kube-scheduler has placed by then what fits.
_STOCK_SECONDS = 20.0


@dataclass
class Outcome:
    """What a run did, and what went wrong."""

    changes: Counter[str] = field(default_factory=Counter)
    restarts: int = 0
    pending: int = 0
    filter_calls: int = 0
    complaints: list[str] = field(default_factory=list)


class Churn:
    """Changes a cluster at random, one change at a time."""

    def __init__(self, api: API, seed: int) -> None:
        self.done: Counter[str] = Counter()
        self._api = api
        self._random = random.Random(seed)
        self._names = 0
        self._leaving_since: dict[str, float] = {}
        self._actions: dict[Callable[[], None], int] = {
            self._add_pod: 45,
            self._delete_pod: 30,
            self._relabel_pod: 5,
            self._cordon_or_uncordon: 10,
            self._add_or_delete_node: 5,
        }

    def begin(self) -> None:
        """Create the nodes."""
        self._api.create(*(self._node() for _ in range(_NODES)))

    def step(self) -> None:
        """Make one change, and end the victims that have had their time."""
        (act,) = self._random.choices(list(self._actions), list(self._actions.values()))
        # What it is about may have gone in the meantime: preempted, or with its node.
        with suppress(APIError):
            act()
            self.done[act.__name__.strip("_")] += 1
        self.end_victims()

    def end_victims(self) -> None:
        """Delete the pods that were asked to end some time ago."""
        now = time.monotonic()
        leaving = {each["metadata"]["uid"]: each for each in self._pods() if "deletionTimestamp" in each["metadata"]}
        self._leaving_since = {uid: self._leaving_since.get(uid, now) for uid in leaving}
        for uid, since in self._leaving_since.items():
            if now - since > _ENDING_SECONDS:
                with suppress(APIError):
                    self._api.delete(leaving[uid])

    def _pods(self) -> list[Object]:
        return self._api.list_all("Pod")

    def _new_name(self, what: str) -> str:
        self._names += 1
        return f"{what}-{self._names}"

    def _node(self) -> Object:
        return node(self._new_name("node"), cpu=f"{_NODE_MILLI}m")

    def _add_pod(self) -> None:
        if len(self._pods()) >= _MOST_PODS:
            self._delete_pod()
        milli = self._random.choice([50, 100, 500, 1000, 2000, 3900])
        ports = [8080] if self._random.random() < 0.1 else []
        spec: Object = {"priorityClassName": "high"} if self._random.random() < 0.1 else {"priorityClassName": "low"}
        if self._random.random() < 0.5:
            spec["terminationGracePeriodSeconds"] = 30
        wanted = pod(self._new_name("pod"), requests={"cpu": f"{milli}m"}, host_ports=ports, **spec)
        self._api.create(wanted)

    def _delete_pod(self) -> None:
        pods = self._pods()
        if pods:
            self._api.delete(self._random.choice(pods))

    def _relabel_pod(self) -> None:
        pods = self._pods()
        if pods:
            labels = {"changed": str(self._random.randrange(1000))}
            self._api.patch(self._random.choice(pods), patch={"metadata": {"labels": labels}})

    def _cordon_or_uncordon(self) -> None:
        found = self._random.choice(self._api.list_all("Node"))
        self._api.patch(found, patch={"spec": {"unschedulable": not found["spec"].get("unschedulable", False)}})

    def _add_or_delete_node(self) -> None:
        nodes = self._api.list_all("Node")
        if len(nodes) < _NODES:
            self._api.create(self._node())
            return
        gone = self._random.choice(nodes)
        self._api.delete(gone)
        # As the garbage collector does.
        self._api.delete(*(each for each in self._pods() if each["spec"].get("nodeName") == gone["metadata"]["name"]))


def run(
    control_plane: ControlPlane, directory: Path, mode: Mode, minutes: float, seed: int, progress: Callable[[str], None]
) -> Outcome:
    """Let a cluster churn for so many minutes, and judge what is left."""
    outcome = Outcome()
    api = control_plane.api
    api.create(*PRIORITY_CLASSES)
    churn = Churn(api, seed)
    churn.begin()
    chance = random.Random(seed + 1)
    lag = LaggingWatches()
    with (
        FaultyProxy(control_plane, lag) as proxy,
        preempting_schedulers.running(control_plane, directory, mode, proxy.kubeconfig) as service,
    ):
        began = time.monotonic()
        restart_at = began + chance.uniform(10, 60)
        lag_until = began
        while time.monotonic() < began + 60 * minutes:
            if time.monotonic() > lag_until:
                lag.seconds = chance.choice([each for each in LAGS if each <= _MOST_LAG_SECONDS])
                lag_until = time.monotonic() + _SECONDS_PER_LAG
                progress(
                    f"{time.monotonic() - began:.0f} s: watches {lag.seconds:g} s late, {churn.done.total()} changes"
                )
            if time.monotonic() > restart_at:
                _restart(control_plane, chance.uniform(0.0, 2.0))
                outcome.restarts += 1
                restart_at = time.monotonic() + chance.uniform(30, 90)
            churn.step()
            time.sleep(_PAUSE_SECONDS)
        _settle(api, churn)
        outcome.complaints += _slow_calls(service)
        outcome.filter_calls = int(service.metric("extender_service_request_duration_seconds_count", verb="filter"))
        outcome.complaints += _logged(service)
    outcome.changes = churn.done
    left = _pending(api)
    outcome.pending = len(left)
    outcome.complaints += _conflicts(api)
    outcome.complaints += _placed_by_stock(control_plane, left)
    return outcome


def _settle(api: API, churn: Churn) -> None:
    """Wait until kube-scheduler has seen all that happened, and nothing happens any more."""
    began = changed = time.monotonic()
    before: set[tuple[str, str, bool]] = set()
    while (now := time.monotonic()) < began + _MOST_SETTLING_SECONDS:
        churn.end_victims()
        pods = api.list_all("Pod")
        state = {
            (each["metadata"]["uid"], each["spec"].get("nodeName", ""), "deletionTimestamp" in each["metadata"])
            for each in pods
        }
        if state != before:
            before, changed = state, now
        if now > began + _INFORMERS_SECONDS and now > changed + _QUIET_SECONDS:
            return
        time.sleep(0.5)


def _restart(control_plane: ControlPlane, down_seconds: float) -> None:
    control_plane.api_server.kill()
    time.sleep(down_seconds)
    control_plane.start_api_server()


def _pending(api: API) -> set[str]:
    return {each["metadata"]["name"] for each in api.list_all("Pod") if not each["spec"].get("nodeName")}


def _placed_by_stock(control_plane: ControlPlane, left: set[str]) -> list[str]:
    """Return a complaint for each of the pods that a kube-scheduler without the service places."""
    alone: Object = {"percentageOfNodesToScore": 100, "profiles": [{"schedulerName": "default-scheduler"}]}
    with schedulers.running(control_plane, alone):
        time.sleep(_STOCK_SECONDS)
        placed = left - _pending(control_plane.api)
    return [f"{name} was pending, and kube-scheduler alone places it" for name in sorted(placed)]


def _conflicts(api: API) -> list[str]:
    milli: Counter[str] = Counter()
    ports: Counter[str] = Counter()
    for each in api.list_all("Pod"):
        node_name = each["spec"].get("nodeName")
        if node_name:
            (container,) = each["spec"]["containers"]
            milli[node_name] += _milli(container["resources"]["requests"]["cpu"])
            ports[node_name] += len(container.get("ports", []))
    overfull = [f"{name} is overfull: {used} of {_NODE_MILLI} m" for name, used in milli.items() if used > _NODE_MILLI]
    return overfull + [f"{name} has a host port {count} times" for name, count in ports.items() if count > 1]


def _milli(cpu: str) -> int:
    return int(cpu.removesuffix("m")) if cpu.endswith("m") else 1000 * int(cpu)


def _slow_calls(service: Service) -> list[str]:
    name = "extender_service_request_duration_seconds"
    calls = service.metric(f"{name}_count", verb="filter")
    quick = service.metric(f"{name}_bucket", verb="filter", le=f"{MOST_FILTER_SECONDS}")
    return [f"{calls - quick:.0f} filter calls took more than {MOST_FILTER_SECONDS:g} s"] if quick < calls else []


def _logged(service: Service) -> list[str]:
    return [
        f"log: {line['msg']}"
        for line in service.log_lines()
        if line["level"] == "error" or "exception" in line or "descriptor" in line["msg"]
    ]


def main() -> int:
    """Print what happened; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.lag.churn", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="how long each mode takes (default: %(default)g)")
    parser.add_argument("--mode", action="append", choices=get_args(Mode), help="only this mode")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(1 << 32), help="of the changes (default: a new one)"
    )
    parser.add_argument(
        "--log", type=Path, metavar="DIRECTORY", help="keep all logs there; it must be new, its path short"
    )
    options = parser.parse_args()
    print(f"seed {options.seed}")
    controlplane = go_programs.build(Path(__file__).parents[1] / "e2e" / "controlplane")
    status = 0
    for mode in options.mode or get_args(Mode):
        with tempfile.TemporaryDirectory(prefix="churn-") as folder:
            directory = Path(folder) if options.log is None else options.log / mode
            directory.mkdir(parents=True, exist_ok=True)
            with ControlPlane(controlplane, directory) as control_plane:
                outcome = run(
                    control_plane, directory, mode, options.minutes, options.seed, lambda line: print(line, flush=True)
                )
        print(
            f"{mode}: {outcome.changes.total()} changes, {outcome.restarts} restarts of the API server, "
            f"{outcome.filter_calls} filter calls, {outcome.pending} pods left pending"
        )
        for complaint in outcome.complaints or ["nothing went wrong"]:
            print(f"    {complaint}")
        status |= bool(outcome.complaints)
    return status


if __name__ == "__main__":
    sys.exit(main())

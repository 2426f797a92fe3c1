"""Kill the API server and start it again, time after time, while many bindings are under way.

    python -m tests.faults.restarts --times 50

A restart fails if the service ends, if a binding or a line of its log names a file descriptor, if a watch comes back
more than 2 s after the API server is ready, or if a pod is not bound in the end.
"""

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TextIO

import httpx

from tests.e2e.support.objects import Object, node, pod
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until
from tests.support import go_programs

# Promised, on a machine with time to spare: so long after the API server is ready, every watch is open again.
WATCHING_WITHIN_SECONDS = 2.0
_NODES = 10
_CALLERS = 48
_PODS = 300
_PAUSE_SECONDS = 0.05
_MOST_SHOWN = 5  # complaints of a round


@dataclass
class Round:
    """One restart: seconds from the API server's readiness until the last watch was open again, and what went wrong."""

    watching_seconds: float = 0.0
    last_kind: str = ""
    failed_bindings: int = 0
    complaints: list[str] = field(default_factory=list)


def run(
    control_plane: ControlPlane, directory: Path, times: int, progress: Callable[[str], None], seed: int | None = None
) -> list[Round]:
    """Restart the API server so many times, and return what each time brought. Without a `seed`, draw one."""
    seed = random.randrange(10**6) if seed is None else seed
    progress(f"seed {seed}")
    chance = random.Random(seed)
    control_plane.api.create(*(node(f"node-{number}", cpu="400", pods="1000") for number in range(_NODES)))
    rounds = []
    with Service(directory, control_plane.kubeconfig) as service, service.log.open() as file:
        log = _WatchLog(service, file)
        for number in range(1, times + 1):
            rounds.append(_restart(control_plane, service, log, chance))
            last = rounds[-1]
            progress(
                f"{number}/{times}: the last watch ({last.last_kind}) after {last.watching_seconds:.1f} s, "
                f"{last.failed_bindings} failed bindings"
            )
            for complaint in last.complaints[:_MOST_SHOWN]:
                progress(f"    {complaint}")
    return rounds


def _restart(control_plane: ControlPlane, service: Service, log: "_WatchLog", chance: random.Random) -> Round:
    result = Round()
    pods = control_plane.api.create(*(pod(f"pod-{number}") for number in range(_PODS)))
    with _bindings(service, [(each, f"node-{chance.randrange(_NODES)}") for each in pods]) as bindings:
        enough = chance.randrange(_PODS // 10, _PODS // 2)
        wait_until(lambda: bindings.bound >= enough, "some pods to be bound")
        killed_at = time.time()
        control_plane.api_server.kill()
        time.sleep(chance.uniform(0.0, 2.0))
        control_plane.start_api_server()
        ready_at = time.time()
        back = wait_until(lambda: log.opened_again(killed_at), "all watches to be open again", 60)
        wait_until(lambda: bindings.bound == _PODS, "all pods to be bound", 60)
    result.last_kind, last_at = max(back.items(), key=lambda item: item[1])
    result.watching_seconds = max(0.0, last_at - ready_at)
    result.failed_bindings = len(bindings.errors)
    result.complaints += [text for text in bindings.errors if "descriptor" in text]
    result.complaints += log.take_complaints()
    control_plane.api.delete(*pods)
    return result


class _Bindings:
    """Binds pods to nodes through the service, from several threads, each until it is bound.

    `errors` are the other answers.
    """

    def __init__(self, service: Service, wanted: list[tuple[Object, str]]) -> None:
        self.bound = 0
        self.errors: list[str] = []
        self.is_over = threading.Event()
        self._service = service
        self._turn = threading.Lock()
        self._waiting = iter(wanted)

    def run(self) -> None:
        while (following := self._next()) is not None:
            unbound, node_name = following
            meta = unbound["metadata"]
            binding = {
                "PodName": meta["name"],
                "PodNamespace": meta["namespace"],
                "PodUID": meta["uid"],
                "Node": node_name,
            }
            while not self.is_over.is_set() and (error := self._bind(binding)):
                with self._turn:
                    self.errors.append(error)
                self.is_over.wait(_PAUSE_SECONDS)
            with self._turn:
                self.bound += 1

    def _next(self) -> tuple[Object, str] | None:
        with self._turn:
            return None if self.is_over.is_set() else next(self._waiting, None)

    def _bind(self, binding: Object) -> str:
        """Return the error, empty if there is none."""
        try:
            error: str = self._service.call("bind", binding)["Error"]
        except httpx.HTTPError as failure:
            return repr(failure)
        # The answer to an earlier try was lost with the API server.
        return "" if "already" in error else error


@contextmanager
def _bindings(service: Service, wanted: list[tuple[Object, str]]) -> Iterator[_Bindings]:
    bindings = _Bindings(service, wanted)
    with ThreadPoolExecutor(_CALLERS) as pool:
        threads = [pool.submit(bindings.run) for _ in range(_CALLERS)]
        try:
            yield bindings
        finally:
            bindings.is_over.set()
            wait(threads)


class _WatchLog:
    """What the service's log says about its watches, read as it grows."""

    def __init__(self, service: Service, file: TextIO) -> None:
        self._service = service
        self._file = file
        self._rest = ""
        self._kinds: set[str] = set()
        self._opened: dict[str, float] = {}
        self._complaints: list[str] = []

    def opened_again(self, since: float) -> dict[str, float]:
        """When each kind was watched again after this time; empty while one of them is not."""
        self._service.process.require_running()
        for line in self._new_lines():
            kind, _, text = line["msg"].partition(": ")
            if text.startswith("listed "):
                self._kinds.add(kind)
            elif text.startswith("watching again after "):
                self._opened[kind] = datetime.fromisoformat(line["time"]).timestamp()
            elif "; next " in text:
                self._opened.pop(kind, None)
            if line["level"] == "error" or "exception" in line or "descriptor" in text:
                self._complaints.append(line["msg"])
        opened = {kind: at for kind, at in self._opened.items() if at > since}
        return opened if opened.keys() == self._kinds else {}

    def take_complaints(self) -> list[str]:
        """Return the lines since the last call that show a defect."""
        self.opened_again(0.0)
        found, self._complaints = self._complaints, []
        return found

    def _new_lines(self) -> list[Object]:
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        return [json.loads(line) for line in lines]


def main() -> int:
    """Print what each restart brought; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.restarts", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="what a run has printed; times still vary")
    parser.add_argument("--times", type=int, default=50, metavar="N", help="how many restarts (default %(default)s)")
    parser.add_argument(
        "--log", type=Path, metavar="DIRECTORY", help="keep all logs there; it must be new, its path short"
    )
    options = parser.parse_args()
    controlplane = go_programs.build(Path(__file__).parents[1] / "e2e" / "controlplane")
    with tempfile.TemporaryDirectory(prefix="restarts-") as folder:
        directory = options.log or Path(folder)
        directory.mkdir(exist_ok=True)
        with ControlPlane(controlplane, directory) as control_plane:
            rounds = run(control_plane, directory, options.times, lambda line: print(line, flush=True), options.seed)
    seconds = sorted(each.watching_seconds for each in rounds)
    late = sum(each > WATCHING_WITHIN_SECONDS for each in seconds)
    complaints = sum(len(each.complaints) for each in rounds)
    middle, longest = seconds[len(seconds) // 2], seconds[-1]
    print(
        f"last watch back: median {middle:.1f} s, longest {longest:.1f} s; {late} of {len(rounds)} after more than 2 s"
    )
    failed = sum(each.failed_bindings for each in rounds)
    print(f"bindings that failed while it was down: {failed}; complaints: {complaints}")
    return 1 if complaints or late else 0


if __name__ == "__main__":
    sys.exit(main())

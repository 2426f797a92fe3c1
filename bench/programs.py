"""The programs that benchmarks start: the peers in Go (bench/peers), and this service."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from tests.e2e.support.programs.processes import Process
from tests.e2e.support.waiting import wait_until
from tests.support import go_programs

PROGRAM = Path(sys.executable).with_name("extender-service")
PEERS = Path(__file__).parent / "peers"
# For `percentageOfNodesToScore`: all nodes; or 0, the default, a sample whose size depends on the number of nodes.
ALL_NODES, SAMPLE = 100, 0
_START_SECONDS = 300.0  # 15,000 nodes and 150,000 pods are made, encoded, sent and decoded
_numbers = count(1)


@dataclass(frozen=True)
class Server:
    """A program that answers HTTP."""

    url: str
    process: Process

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def cpu_seconds(self) -> float:
        """The CPU time that it has used so far."""
        return cpu_seconds(self.pid)

    @property
    def resident_mib(self) -> float:
        """Its resident memory in MiB."""
        return resident_mib(self.pid)

    def post(self, path: str) -> bytes:
        """Send a POST request without a body. Returns the answer's body."""
        with _HTTP.open(urllib.request.Request(f"{self.url}{path}", method="POST"), timeout=300) as answer:
            body: bytes = answer.read()
            return body

    def metric(self, series: str) -> float:
        """Return the sum of the metrics whose name and labels start with `series`."""
        with _HTTP.open(f"{self.url}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(series))

    def is_ready(self) -> bool:
        """Return whether /readyz answers 200; False if the program does not listen yet."""
        self.process.require_running()
        try:
            with _HTTP.open(f"{self.url}/readyz", timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


@dataclass(frozen=True)
class ClusterSize:
    """A synthetic cluster as bench/peers/internal/gen makes it; 46 images make a node 11 KB of JSON."""

    nodes: int
    pods_per_node: int = 10
    images: int = 46

    def options(self) -> list[str]:
        """The options of the peers' programs for this cluster, except the number of nodes."""
        return [f"-pods-per-node={self.pods_per_node}", f"-images={self.images}"]


class Peers:
    """The peers' programs, each built at its first use. bench/peers/README.md describes them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextmanager
    def api(self, size: ClusterSize, encodings: str = "both") -> Iterator[Server]:
        """Run a stub API server for reading a cluster of this size; encodings are json, proto or both."""
        options = [f"-nodes={size.nodes}", *size.options(), f"-format={encodings}"]
        with self._serving("stubapi", *options) as server:
            yield server

    @contextmanager
    def live_api(self, certificate: Path, key: Path) -> Iterator[Server]:
        """Run an empty stub API server that accepts what a scheduler writes, over TLS."""
        with self._serving("stubapi", "-live", f"-tls-cert={certificate}", f"-tls-key={key}") as server:
            yield server

    @contextmanager
    def extender(self, api: Server) -> Iterator[Server]:
        """Run a typical extender in Go that watches an API server."""
        with self._serving("goextender", f"-api={api.url}") as server:
            yield server

    @contextmanager
    def canned(self) -> Iterator[Server]:
        """Run the same program without an API server, for its prepared answers at /canned/N."""
        with self._serving("goextender", "-nodes=1") as server:
            yield server

    def cycle(self, size: ClusterSize, percent: int, *options: str) -> list[dict[str, Any]]:
        """Measure kube-scheduler's cycle in process, with this `percentageOfNodesToScore`.

        Returns a row for each class of pods.
        """
        options = (f"-nodes={size.nodes}", *size.options(), f"-percent={percent}", *options)
        return self._lines("kubecycle", "cycle", *options)

    def memory(self, api: Server, size: ClusterSize) -> dict[str, Any]:
        """Load the cluster into kube-scheduler's informers and cache, from JSON."""
        options = [f"-api={api.url}", f"-nodes={size.nodes}", *size.options(), "-format=json"]
        return self._lines("kubecycle", "mem", *options)[0]

    def call(self, server: Server, *options: str) -> list[dict[str, Any]]:
        """Call an extender. Returns a row for each client, form, verb and number of nodes."""
        return self._lines("extload", f"-url={server.url}", f"-pid={server.pid}", *options)

    def body(self, pod_class: str, nodes: int) -> bytes:
        """Return the body of kube-scheduler's request for a pod of a class and the first `nodes` nodes by name."""
        wanted = [f"-class={pod_class}", f"-sizes={nodes}", "-verb=filter", "-client=raw"]
        subprocess.run([self._program("extload"), f"-dump={self._directory}", *wanted], check=True)
        return (self._directory / f"args-names-{nodes}.json").read_bytes()

    def _lines(self, program: str, *options: str) -> list[dict[str, Any]]:
        out = self._directory / f"{program}-{next(_numbers)}.jsonl"
        command: list[str | Path] = [self._program(program), *options, f"-out={out}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{program} {' '.join(options)}: {done.stderr}")
        return [json.loads(line) for line in out.read_text().splitlines()]

    @contextmanager
    def _serving(self, program: str, *options: str) -> Iterator[Server]:
        log = self._directory / f"{program}-{next(_numbers)}.log"
        with running(Process([self._program(program), *options], log)) as process:
            yield Server(_url(process, r"ready (\S+)"), process)

    @staticmethod
    def _program(name: str) -> Path:
        return go_programs.build(PEERS / name)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time in seconds that a process has used so far."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


@contextmanager
def service(
    directory: Path,
    *options: str,
    wait_ready: bool = True,
    program: Sequence[str | Path] = (PROGRAM,),
    release: str | None = "1.31",
) -> Iterator[Server]:
    """Run `extender-service serve` on a free port, with its log in `directory`.

    `release` is that of Kubernetes, by default the peers'; None leaves it to the program.
    """
    log = directory / f"extender-service-{next(_numbers)}.log"
    of_release = [] if release is None else [f"--emulated-version={release}"]
    command = [*program, "serve", "--port=0", *of_release, *options]
    with running(Process(command, log)) as process:
        server = Server(_url(process, r"(http://127\.0\.0\.1:\d+)"), process)
        if wait_ready:
            wait_until(server.is_ready, "the service's /readyz", _START_SECONDS)
        yield server


@contextmanager
def running(process: Process) -> Iterator[Process]:
    """Kill the process in the end."""
    try:
        yield process
    finally:
        process.kill()


def _url(process: Process, pattern: str) -> str:
    def find() -> str:
        process.require_running()
        found = re.search(pattern, process.log.read_text(errors="replace"))
        return found[1] if found else ""

    return wait_until(find, f"{process.log.stem} to listen", _START_SECONDS)


# The programs run on this host: ignore the environment's proxy.
_HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))

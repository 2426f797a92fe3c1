"""The service that is attacked: a process of its own, with a cluster file."""

import http.client
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from bench import synthetic
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.waiting import wait_until

PROGRAM = Path(sys.executable).with_name("extender-service")
MIB = 1 << 20

Answer = tuple[int, Any]


class Subject:
    """`extender-service serve` for a cluster of so many nodes, 10 pods on each, and `more` objects of a manifest."""

    def __init__(
        self, directory: Path, nodes: int, *, more: Sequence[Mapping[str, Any]] = (), options: Sequence[str] = ()
    ) -> None:
        self.names = [f"node-{index:05}" for index in range(nodes)]
        directory = Path(tempfile.mkdtemp(dir=directory))
        self.log = directory / "service.log"
        cluster: dict[str, Any] = synthetic.manifests(nodes, 10)
        file = directory / "cluster.json"
        file.write_bytes(msgspec.json.encode({**cluster, "items": [*cluster["items"], *more]}))
        self._command: list[str | Path] = [
            PROGRAM,
            "serve",
            f"--cluster-file={file}",
            "--port=0",
            "--log-format=json",
            *options,
        ]

    def __enter__(self) -> Self:
        self.process = Process(self._command, self.log)
        try:
            self.port = int(wait_until(self._url, "the service to listen", 120).rpartition(":")[2])
            wait_until(lambda: self.answers("/readyz"), "the service to be ready", 60)
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.process.kill()

    def call(self, verb: str, body: bytes, seconds: float = 60.0) -> Answer:
        """Call a verb with these bytes; returns the status and what it answers. Raises OSError, HTTPException."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            connection.request("POST", f"/{verb}", body)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def filter(self, pod: object, names: Sequence[str] | None = None) -> Answer:
        """Ask where a pod may go."""
        return self.call("filter", msgspec.json.encode({"Pod": pod, "NodeNames": names or self.names}))

    def answers(self, path: str) -> bool:
        """Whether a GET is answered with 200."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def metric(self, series: str) -> float:
        """The value of a series, given as it is written; 0 if there is none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{series} ")), 0.0)

    def memory(self) -> int:
        """Bytes that it has in memory."""
        return self._status("VmRSS")

    def memory_peak(self) -> int:
        """The most that it had since `forget_peak`."""
        return self._status("VmHWM")

    def forget_peak(self) -> None:
        """Begin to note the most memory anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def log_lines(self) -> list[dict[str, Any]]:
        """What it logged; a line that is no JSON is a fault."""
        whole, _, _ = self.log.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.split("\n") if line.startswith("{")]

    def _status(self, field: str) -> int:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))

    def _url(self) -> str:
        self.process.require_running()
        lines = self.log_lines() if self.log.exists() else []
        return next((str(line["url"]) for line in lines if line["msg"] == "listening"), "")

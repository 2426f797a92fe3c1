"""The service as its users run it: the real command line, in a process of its own."""

import json
import ssl
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from extender_service.framework.interface import Plugin
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.waiting import wait_until

PROGRAM = Path(sys.executable).with_name("extender-service")


class Service:
    """`extender-service serve` against an API server, with its log and configuration in `directory`.

    As a context manager it starts on a free port, waits until the service is ready unless told otherwise, and kills it
    in the end. The log goes on where the service is started again.
    """

    def __init__(
        self,
        directory: Path,
        kubeconfig: Path,
        *,
        mode: str = "replace",
        configuration: Object | None = None,
        plugins: Sequence[type[Plugin]] = (),
        options: Sequence[str] = (),
        tls: ssl.SSLContext | bool = True,
        wait_ready: bool = True,
    ) -> None:
        """`configuration` is a KubeSchedulerConfiguration without apiVersion and kind; None stands for the default.

        `plugins` are loaded besides the service's own, and do nothing unless the configuration enables them. `options`
        are added to the command line. `tls` is how `call` proves itself, where the service asks for that.
        """
        self.log = directory / "extender-service.log"
        self._options = [f"--kubeconfig={kubeconfig}", f"--mode={mode}", "--log-format=json"]
        self._options += [f"--plugin={plugin.__module__}:{plugin.__name__}" for plugin in plugins]
        self._options += options
        if configuration is not None:
            head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
            file = directory / "extender-service.yaml"
            file.write_text(yaml.safe_dump({**head, **configuration}))
            self._options.append(f"--config={file}")
        self._wait_ready = wait_ready
        self._http = httpx.Client(trust_env=False, timeout=30.0, verify=tls)

    def __enter__(self) -> Self:
        self.process = self._start(0)
        try:
            listening = wait_until(self._listening, "the service to listen")
            self.url: str = listening["url"]
            self.probes_url: str = listening.get("probes_url") or self.url
            if self._wait_ready:
                wait_until(self.is_ready, "the service's /readyz")
        except BaseException:
            self.process.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._http.close()
        self.process.kill()

    def start_again(self) -> None:
        """Start it on the same port, after `process.kill()` or `.stop()`."""
        self.process = self._start(int(self.url.rpartition(":")[2]))

    def is_ready(self) -> bool:
        """Whether /readyz says so; False where nobody listens yet."""
        self.process.require_running()
        try:
            return self._http.get(f"{self.probes_url}/readyz").is_success
        except httpx.TransportError:
            return False

    def call(self, verb: str, body: Object) -> Any:
        """Call a verb as kube-scheduler, or somebody with curl, does; returns the decoded answer."""
        return self._http.post(f"{self.url}/{verb}", json=body).raise_for_status().json()

    def metric(self, name: str, **labels: str) -> float:
        """The value of a metric; the sum over the labels that are not given, 0 if there is none."""
        total = 0.0
        for line in self._http.get(f"{self.probes_url}/metrics").raise_for_status().text.splitlines():
            series, _, value = line.rpartition(" ")
            found, _, rest = series.partition("{")
            if found == name and all(f'{label}="{wanted}"' in rest for label, wanted in labels.items()):
                total += float(value)
        return total

    def requests(self, verb: str, result: str) -> int:
        """How many calls of a verb ended so: ok, refused or error."""
        return int(self.metric("extender_service_requests_total", verb=verb, result=result))

    def decisions(self, verb: str) -> list[Object]:
        """What the log tells about the calls of a verb that ended without an error, in their order."""
        # It tells of a few calls together, and of all that came so far before it answers with its metrics.
        self._http.get(f"{self.probes_url}/metrics").raise_for_status()
        return [line for line in self.log_lines() if line["msg"] == "decided" and line["verb"] == verb]

    def _start(self, port: int) -> Process:
        return Process([PROGRAM, "serve", f"--port={port}", *self._options], self.log)

    def _listening(self) -> Object:
        """Where it listens, as its log says."""
        self.process.require_running()
        return next((line for line in self.log_lines() if line["msg"] == "listening"), {})

    def log_lines(self) -> Iterator[Object]:
        """The log's records, but for the last line while it is being written; what is no JSON shows a crash."""
        whole, _, _ = self.log.read_text().rpartition("\n")
        for line in whole.splitlines():
            if not line.startswith("{"):
                raise AssertionError(f"the service's log:\n{whole[-3000:]}")
            yield json.loads(line)

"""A pod of the second scheduler, kept running as a kubelet keeps it, but twenty times as fast."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import httpx

from tests.e2e.support.objects import Object
from tests.e2e.support.programs.deployments import Base, edit, on_host, passes
from tests.e2e.support.programs.processes import Process
from tests.e2e.support.programs.service import PROGRAM
from tests.support.servers.free_ports import free_port

FASTER = 20
_FIRST_PAUSE_SECONDS = 10 / FASTER


class Container:
    """One container, started again when it ends, and ended when its startup or liveness probe has failed too often.

    `ended_by_probes` is how often that was. It is started again at once the first time, then after a pause that doubles
    (CrashLoopBackOff); while `stays_down`, not at all, as if its image were gone.
    """

    def __init__(self, manifest: Object, command: Sequence[object], log: Path, port: int, probes_port: int) -> None:
        """`probes_port` is that of the liveness probe, `port` that of the others."""
        self.log = log
        self.stays_down = False
        self.has_started = False
        self.ended_by_probes = 0
        self._manifest = manifest
        self._command = [str(word) for word in command]
        self._port = port
        self._probes_port = probes_port
        self._process: Process | None = None
        self._starts = 0
        self._start_at = self._probe_at = 0.0
        self._failures = 0

    def sync(self) -> None:
        """Do what is due for it now."""
        now = time.monotonic()
        if self._process is not None and self._process.exit_code is not None:
            self._process = None
            self._start_at = now + (_FIRST_PAUSE_SECONDS * 2 ** (self._starts - 2) if self._starts > 1 else 0)
        if self._process is None:
            if not self.stays_down and now >= self._start_at:
                self._start()
        elif now >= self._probe_at:
            if self.has_started:
                self._probe(self._process, "livenessProbe", self._probes_port)
            else:
                self.has_started = self._probe(self._process, "startupProbe", self._port)

    def kill(self) -> None:
        """End it by SIGKILL."""
        if self._process is not None:
            self._process.kill()

    def forget_restarts(self) -> None:
        """Have it started again at once when it ends next, as after ten minutes without a restart."""
        self._starts = min(self._starts, 1)

    @property
    def is_ready(self) -> bool:
        """Whether it runs, and its readiness probe passes."""
        return self._process is not None and self.has_started and passes(self._manifest["readinessProbe"], self._port)

    def _start(self) -> None:
        self._process = Process(self._command, self.log)
        self._starts += 1
        self.has_started = False
        self._failures = 0

    def _probe(self, process: Process, kind: str, port: int) -> bool:
        probe = self._manifest[kind]
        self._probe_at = time.monotonic() + probe["periodSeconds"] / FASTER
        has_passed = passes(probe, port)
        self._failures = 0 if has_passed else self._failures + 1
        if self._failures >= probe["failureThreshold"]:
            self.ended_by_probes += 1
            process.stop()
        return has_passed


class PairPod:
    """A pod of deploy/second-scheduler on a host of its own, which has the name of `directory`.

    Nothing happens to it but in `sync`, which is to be called again and again.
    """

    def __init__(
        self,
        base: Base,
        controlplane: Path,
        account: Path,
        directory: Path,
        *edits: tuple[str, str],
        options: Sequence[str] = (),
    ) -> None:
        """`edits` are made to its kube-scheduler.yaml; its service gets `options`, too."""
        self.host = directory.name
        files, port, probes_port, secure_port = directory / "files", free_port(), free_port(), free_port()
        directory.mkdir()
        base.write_files(files)
        configuration = files / "kube-scheduler.yaml"
        here = f"\nclientConnection: {{kubeconfig: {account}}}\nleaderElection:"
        service_url = ("http://127.0.0.1:8888", f"http://127.0.0.1:{port}")
        for replace, by in (service_url, ("\nleaderElection:", here), *edits):
            edit(configuration, replace=replace, by=by)
        words = [word.replace("$(POD_IP)", "127.0.0.1") for word in base.command("extender-service", files)]
        ports = [f"--port={port}", f"--healthz-port={probes_port}"]
        self.service = Container(
            base.container("extender-service"),
            [*on_host(self.host), PROGRAM, *words, f"--kubeconfig={account}", *ports, *options],
            directory / "extender-service.log",
            probes_port,
            probes_port,
        )
        by_account = [f"--{what}-kubeconfig={account}" for what in ("authentication", "authorization")]
        command = [controlplane, *base.command("kube-scheduler", files), *by_account, f"--secure-port={secure_port}"]
        self.scheduler = Container(
            base.container("kube-scheduler"),
            [*on_host(self.host), *command],
            directory / "kube-scheduler.log",
            secure_port,
            probes_port,
        )
        self._has_sidecar = False
        self._metrics_url = f"http://127.0.0.1:{probes_port}/metrics"

    def sync(self) -> None:
        """Do what is due now; kube-scheduler starts after its sidecar has."""
        self.service.sync()
        self._has_sidecar = self._has_sidecar or self.service.has_started
        if self._has_sidecar:
            self.scheduler.sync()

    def kill(self) -> None:
        """End both containers by SIGKILL."""
        self.service.kill()
        self.scheduler.kill()

    def stay_down(self, *, down: bool) -> None:
        """Have both stay down, or come back."""
        self.service.stays_down = self.scheduler.stays_down = down

    def forget_restarts(self) -> None:
        """Have each container started again at once when it ends next."""
        self.service.forget_restarts()
        self.scheduler.forget_restarts()

    def decisions(self) -> list[Object]:
        """What its service, which must be ready, has logged of the calls that ended without an error."""
        # Before the service answers with its metrics, it logs the calls that wait for that.
        httpx.get(self._metrics_url, trust_env=False, timeout=30.0).raise_for_status()
        records: list[Object] = [json.loads(line) for line in self.service.log.read_text().splitlines()]
        return [record for record in records if record["msg"] == "decided"]

    @property
    def ended_by_probes(self) -> int:
        """How often probes have ended one of its containers."""
        return self.service.ended_by_probes + self.scheduler.ended_by_probes

    @property
    def is_ready(self) -> bool:
        """Whether both containers are."""
        return self.service.is_ready and self.scheduler.is_ready

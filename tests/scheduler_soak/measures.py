"""What is measured of a scheduler that runs: its metrics, its memory."""

import ssl
from collections.abc import Iterator
from typing import NamedTuple

import httpx
from prometheus_client.parser import text_string_to_metric_families

from bench.programs import cpu_seconds, resident_mib
from tests.e2e.support.programs.processes import Process
from tests.soak.figures import Sample

_ATTEMPTS = "scheduler_schedule_attempts_total"
_INCOMING = "scheduler_queue_incoming_pods_total"
_PENDING = "scheduler_pending_pods"
_PREEMPTION = {"scheduler_preemption_attempts_total": "attempts", "scheduler_preemption_victims_sum": "victims"}
_READ = (_ATTEMPTS, _INCOMING, _PENDING, *_PREEMPTION)


class Counts(NamedTuple):
    """Attempts by result, attempts and victims of preemption, and pods that came into a queue by event and queue."""

    attempts: dict[str, int]
    preemption: dict[str, int]
    incoming: dict[tuple[str, str], int]


class Running:
    """A scheduler that serves its metrics to everyone, on a port of 127.0.0.1."""

    def __init__(self, name: str, process: Process, port: int) -> None:
        self.name = name
        self.process = process
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._http = httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=context, trust_env=False, timeout=30.0)

    def end(self) -> None:
        """Kill it."""
        self._http.close()
        self.process.kill()

    def is_listening(self) -> bool:
        """Whether it serves already."""
        self.process.require_running()
        try:
            return self._http.get("/healthz").is_success
        except httpx.TransportError:
            return False

    def counts(self) -> Counts:
        """Read its counters."""
        counts = Counts({}, {}, {})
        for name, labels, value in self._metrics():
            if name == _ATTEMPTS:
                counts.attempts[labels["result"]] = int(value)
            elif name in _PREEMPTION:
                counts.preemption[_PREEMPTION[name]] = int(value)
            elif name == _INCOMING:
                counts.incoming[labels["event"], labels["queue"]] = int(value)
        return counts

    def waiting(self) -> int:
        """Read how many pods wait for nothing but their turn or the end of their backoff."""
        return sum(
            int(value)
            for name, labels, value in self._metrics()
            if name == _PENDING and labels["queue"] in ("active", "backoff")
        )

    def sample(self, at: float) -> Sample:
        """Measure its memory and processor time, `at` so many seconds."""
        self.process.require_running()
        return Sample(at, resident_mib(self.process.pid) * 1024, cpu_seconds(self.process.pid))

    def _metrics(self) -> Iterator[tuple[str, dict[str, str], float]]:
        text = self._http.get("/metrics").raise_for_status().text
        lines = [line for line in text.splitlines() if line.startswith(_READ)]
        for family in text_string_to_metric_families("\n".join([*lines, ""])):
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value

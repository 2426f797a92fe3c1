"""Results of health checks, for service level indicators (component-base/metrics/prometheus/slis)."""

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STARTED = "process_start_time_seconds"


class SliMetrics(Collector):
    """Counts the results of checks by name and by type, which is the path: healthz, livez or readyz."""

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], bool] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def observe(self, path: str, outcomes: Mapping[str, bool]) -> None:
        """Count checks that ran, and whether each passed."""
        for name, passed in outcomes.items():
            self._latest[name, path] = passed
            self._counts[name, path, "success" if passed else "error"] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        latest = GaugeMetricFamily(
            "kubernetes_healthcheck", "1 if the check passed when it ran last, else 0.", labels=["name", "type"]
        )
        for labels, passed in self._latest.items():
            latest.add_metric(labels, int(passed))
        yield latest
        counts = CounterMetricFamily(
            "kubernetes_healthchecks", "Results of health checks.", labels=["name", "type", "status"]
        )
        for result, count in self._counts.items():
            counts.add_metric(result, count)
        yield counts
        started = REGISTRY.get_sample_value(_STARTED)
        if started is not None:
            yield GaugeMetricFamily(_STARTED, "When the process started, in seconds since 1970.", started)

    def exposition(self) -> bytes:
        """Return Prometheus' text format."""
        return generate_latest(self._registry)

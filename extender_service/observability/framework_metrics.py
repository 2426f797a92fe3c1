"""Durations of extension points and plugins, under kube-scheduler's names (pkg/scheduler/metrics/metrics.go)."""

from prometheus_client import CollectorRegistry, Histogram

_POINT_SECONDS = tuple(0.0001 * 2**power for power in range(12))
_WAIT_SECONDS = tuple(0.001 * 2**power for power in range(15))
_PLUGIN_SECONDS = tuple(0.00001 * 1.5**power for power in range(20))


# The most durations that wait to be counted, more than a few calls produce.
_MOST_NOTED = 1024


class FrameworkMetrics:
    """A `framework.recording.Recorder` that notes durations, and fills histograms with them when `count` is called.

    Counting takes longer than noting, and kube-scheduler waits while a decision is made.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._points = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time for running all plugins of an extension point.",
            ["extension_point", "status", "profile"],
            buckets=_POINT_SECONDS,
            registry=registry,
        )
        self._plugins = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Time for running a plugin at an extension point on all nodes at once; a tenth of all decisions is timed.",
            ["plugin", "extension_point", "status"],
            buckets=_PLUGIN_SECONDS,
            registry=registry,
        )
        self._permit_waits = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Time for which pods waited in Permit.",
            ["result"],
            buckets=_WAIT_SECONDS,
            registry=registry,
        )
        # Kept by labels, as `labels()` costs more than observing.
        self._of_point: dict[tuple[str, str, str], Histogram] = {}
        self._of_plugin: dict[tuple[str, str, str], Histogram] = {}
        self._noted: list[tuple[Histogram, float]] = []

    def record_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """Note a run of all plugins of an extension point."""
        key = (point, status, profile)
        histogram = self._of_point.get(key)
        if histogram is None:
            histogram = self._of_point[key] = self._points.labels(*key)
        self._note(histogram, seconds)

    def record_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Note a call of one plugin."""
        key = (plugin, point, status)
        histogram = self._of_plugin.get(key)
        if histogram is None:
            histogram = self._of_plugin[key] = self._plugins.labels(*key)
        self._note(histogram, seconds)

    def record_permit_wait(self, status: str, seconds: float) -> None:
        """Note how long a pod waited in Permit, and how that ended."""
        self._permit_waits.labels(status).observe(seconds)

    def count(self) -> None:
        """Add the noted durations to the histograms."""
        noted, self._noted = self._noted, []
        for histogram, seconds in noted:
            histogram.observe(seconds)

    def _note(self, histogram: Histogram, seconds: float) -> None:
        self._noted.append((histogram, seconds))
        if len(self._noted) == _MOST_NOTED:
            self.count()

"""Durations of extension points and plugins, under kube-scheduler's names (pkg/scheduler/metrics/metrics.go)."""

from prometheus_client import CollectorRegistry

from extender_service.observability.cheap_metrics import CheapHistogram

_POINT_SECONDS = tuple(0.0001 * 2**power for power in range(12))
_WAIT_SECONDS = tuple(0.001 * 2**power for power in range(15))
_PLUGIN_SECONDS = tuple(0.00001 * 1.5**power for power in range(20))


class FrameworkMetrics:
    """A `framework.recording.Recorder` that fills histograms."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._points = CheapHistogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time for running all plugins of an extension point.",
            ["extension_point", "status", "profile"],
            buckets=_POINT_SECONDS,
            registry=registry,
        )
        self._plugins = CheapHistogram(
            "scheduler_plugin_execution_duration_seconds",
            "Time for running a plugin at an extension point on all nodes at once; a tenth of all decisions is timed.",
            ["plugin", "extension_point", "status"],
            buckets=_PLUGIN_SECONDS,
            registry=registry,
        )
        self._permit_waits = CheapHistogram(
            "scheduler_permit_wait_duration_seconds",
            "Time for which pods waited in Permit.",
            ["result"],
            buckets=_WAIT_SECONDS,
            registry=registry,
        )

    def record_point(self, profile: str, point: str, status: str, seconds: float) -> None:
        """Note a run of all plugins of an extension point."""
        self._points.labels(point, status, profile).observe(seconds)

    def record_plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Note a call of one plugin."""
        self._plugins.labels(plugin, point, status).observe(seconds)

    def record_permit_wait(self, status: str, seconds: float) -> None:
        """Note how long a pod waited in Permit, and how that ended."""
        self._permit_waits.labels(status).observe(seconds)

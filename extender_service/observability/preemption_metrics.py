"""Metrics of preemption, under kube-scheduler's names (pkg/scheduler/metrics/metrics.go)."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter

from extender_service.config.rules import Rules
from extender_service.observability.cheap_metrics import CheapHistogram
from extender_service.seams import Clock

_SECONDS = tuple(0.01 * 2**power for power in range(20))


class PreemptionMetrics:
    """Counts attempts to make room, and their victims; which metrics there are depends on the `rules`."""

    def __init__(self, registry: CollectorRegistry, clock: Clock, rules: Rules) -> None:
        self._clock = clock
        self._attempts = Counter(
            "scheduler_preemption_attempts", "Attempts to make room by deleting pods.", registry=registry
        )
        self._victims = CheapHistogram(
            "scheduler_preemption_victims",
            "Pods deleted to make room for one.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        in_background = registry if rules.preemption_in_background else None
        self._eviction_seconds = CheapHistogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "Time to evict the victims of a pod in the background (in kube-scheduler, in a goroutine).",
            ["result"],
            buckets=_SECONDS,
            registry=None if rules.preemption_time_hidden else in_background,
        )
        self._evictions = Counter(
            "scheduler_preemption_goroutines_execution",
            "Pods whose victims were evicted in the background, by whether all were: success or error.",
            ["result"],
            registry=in_background,
        )

    def tried(self) -> None:
        """Note that DefaultPreemption was called."""
        self._attempts.inc()

    def preempted(self, victims: int) -> None:
        """Note that so many victims were deleted for a pod."""
        self._victims.observe(victims)

    def preempting(self) -> Callable[[str], None]:
        """Note that victims are evicted in the background; call what it returns at the end: success or error."""
        began = self._clock()

        def ended(result: str) -> None:
            self._eviction_seconds.labels(result).observe(self._clock() - began)
            self._evictions.labels(result).inc()

        return ended

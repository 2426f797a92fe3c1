"""Turns the observations of calls into counts, and lines in the log."""

import asyncio

from extender_service.extender.reporting.call_metrics import CallMetrics
from extender_service.extender.reporting.decision_log import log_decision
from extender_service.extender.reporting.observation import Observation
from extender_service.observability.metrics_registry import MetricsRegistry

# Seconds until a call is reported, and the most calls that may wait: reporting these takes less than a decision.
_DELAY_SECONDS = 0.02
_MOST_WAITING = 8


class CallObserver:
    """Counts calls and logs them, those of a moment together.

    kube-scheduler calls hundreds of times a second. Between calls, the code that reports them leaves the processor's
    caches: reporting one call takes as long as reporting three in a row. And the next call does not wait for it.
    """

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._exposition = metrics.recent_exposition
        self._metrics = CallMetrics(metrics)
        self._waiting: list[Observation] = []
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, observation: Observation) -> None:
        """Note a call, to be counted and logged soon."""
        self._waiting.append(observation)
        if len(self._waiting) == _MOST_WAITING:
            self.tell()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY_SECONDS, self.tell)

    def tell(self) -> None:
        """Count and log the calls that wait for it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        for observation in waiting:
            self._metrics.observe(observation)
            log_decision(observation)

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return all metrics, after counting and logging the calls that wait for it (see RecentExposition)."""
        self.tell()
        return self._exposition(accept)

"""What becomes of the observations of calls: counts, and lines in the log."""

from extender_service.extender.observation import Observation, Observer
from extender_service.observability.decisions import log_decision
from extender_service.observability.metrics import Metrics


def observer(metrics: Metrics) -> Observer:
    """Return what the application is to tell about each call."""

    def observe(observation: Observation) -> None:
        metrics.observe(observation)
        log_decision(observation)

    return observe

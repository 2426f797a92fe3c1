"""One log line per decision.

A decision is told at info, also when no node passed: that is the cluster's state, which kube-scheduler deals with. A
call that ended with an error is a warning: its pod waits for no reason of its own, and kube-scheduler tries again.
"""

import logging
from collections.abc import Mapping

from extender_service.extender.reporting.observation import Observation

log = logging.getLogger(__name__)


def log_decision(observation: Observation) -> None:
    """Tell what was decided about a pod, or that nothing could be."""
    level = logging.WARNING if observation.error else logging.INFO
    if log.isEnabledFor(level):
        # Not log.log: that looks for the line of code that it was called from.
        message = "failed" if observation.error else "decided"
        record = logging.LogRecord(log.name, level, "", 0, message, (), None)
        record.created = observation.at
        vars(record).update(_fields(observation))
        log.handle(record)


def availability(passed: int, asked: int, reasons: Mapping[str, int]) -> str:
    """Say how many nodes passed and why the others did not, in the words of kube-scheduler.

    See FitError.Error in pkg/scheduler/framework/types.go, which speaks only where no node passed.
    """
    counted = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return f"{passed}/{asked} nodes are available: {', '.join(counted)}."


def _fields(observation: Observation) -> dict[str, object]:
    fields: dict[str, object] = {"verb": observation.verb}
    if observation.pod:
        fields["pod"] = observation.pod
    if observation.error:
        fields["error"] = observation.error
    else:
        fields["asked"] = observation.asked
        fields["passed"] = observation.passed
    if observation.node_name:
        fields["node"] = observation.node_name
    if observation.reasons:
        fields["reasons"] = availability(observation.passed, observation.asked, observation.reasons)
    if observation.looked_again:
        fields["looked_again"] = True
    if observation.ahead:
        fields["ahead"] = True
    fields["ms"] = round(observation.seconds * 1000, 3)
    return fields

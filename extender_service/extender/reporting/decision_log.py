"""One log line per decision.

The line reports why nodes were refused: how many for each reason, and how many by each plugin. At debug level it also
has the best nodes, with what each plugin contributed to their scores: those of prioritize, and in `replace` of filter,
which chooses.

A decision is logged at info, also if no node passed: that is the cluster's state, which kube-scheduler handles. A call
that ended with an error is a warning: its pod waits through no fault of its own, and kube-scheduler tries again.
"""

import logging

from extender_service.extender.reporting.observation import Observation
from extender_service.extender.wire.requested_nodes import UNKNOWN_NODE
from extender_service.observability.logs import log_fields
from extender_service.scheduling.explanation import explained

log = logging.getLogger(__name__)


def log_decision(observation: Observation) -> None:
    """Log the decision about a pod, or the error that prevented it."""
    level = logging.WARNING if observation.error else logging.INFO
    if log.isEnabledFor(level):
        log_fields(log, level, "failed" if observation.error else "decided", _fields(observation), observation.at)


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
    if observation.grounds is not None:
        fields |= explained(
            observation.grounds,
            observation.asked,
            observation.passed,
            unknown_reason=UNKNOWN_NODE,
            with_scores=log.isEnabledFor(logging.DEBUG),
        )
    if observation.looked_again:
        fields["looked_again"] = True
    if observation.ahead:
        fields["ahead"] = True
    fields["ms"] = round(observation.seconds * 1000, 3)
    return fields

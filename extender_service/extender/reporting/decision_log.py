"""One log line per decision.

The line reports why nodes were refused: how many for each reason, and how many by each plugin. At debug level it also
has the best nodes, with what each plugin contributed to their scores.

A decision is logged at info, also if no node passed: that is the cluster's state, which kube-scheduler handles. A call
that ended with an error is a warning: its pod waits through no fault of its own, and kube-scheduler tries again.
"""

import logging

from extender_service.extender.reporting.observation import Observation
from extender_service.extender.wire.requested_nodes import UNKNOWN_NODE
from extender_service.framework.fit_text import counted_reasons, fit_text
from extender_service.observability.logs import log_fields
from extender_service.scheduling.explanation import Grounds, NodeScore, best_scores, refusals

log = logging.getLogger(__name__)

_SCORED_NODES = 3


def log_decision(observation: Observation) -> None:
    """Log the decision about a pod, or the error that prevented it."""
    level = logging.WARNING if observation.error else logging.INFO
    if log.isEnabledFor(level):
        log_fields(log, level, "failed" if observation.error else "decided", _fields(observation), observation.at)


def _explanation(observation: Observation, grounds: Grounds) -> dict[str, object]:
    fields: dict[str, object] = {}
    reasons, plugins = refusals(grounds)
    if grounds.unknown:
        reasons[UNKNOWN_NODE] = reasons.get(UNKNOWN_NODE, 0) + grounds.unknown
    if reasons:
        fields["reasons"] = fit_text(observation.asked, counted_reasons(reasons), observation.passed)
    if plugins:
        fields["refused_by"] = ", ".join(f"{count} {plugin}" for plugin, count in plugins.items())
    if log.isEnabledFor(logging.DEBUG):
        best = best_scores(grounds, _SCORED_NODES)
        if best:
            fields["scores"] = "; ".join(map(_score, best))
    return fields


def _score(node: NodeScore) -> str:
    by_plugin = ", ".join(f"{plugin} {score}" for plugin, score in node.by_plugin.items())
    return f"{node.node_name} {node.total}: {by_plugin}"


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
        fields.update(_explanation(observation, observation.grounds))
    if observation.looked_again:
        fields["looked_again"] = True
    if observation.ahead:
        fields["ahead"] = True
    fields["ms"] = round(observation.seconds * 1000, 3)
    return fields

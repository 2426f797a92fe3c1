"""One line of the log for each node that was chosen for a pod, at debug: how many nodes fit, why the others do not, and
what the best ones scored."""

import logging
from collections.abc import Callable

from extender_service.kube.types.core import pod_name
from extender_service.observability.logs import log_fields
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.explanation import explained, grounds

log = logging.getLogger(__name__)

# Takes a decision and the name of the node that was chosen, before the pod is placed there.
Explain = Callable[[Decision, str], None]


def logging_choices(explain: Explain | None) -> Explain | None:
    """Return what logs each choice, if the level of the log is debug by now, and then calls `explain`, if it is given.

    None if there is nothing to do.
    """
    if not log.isEnabledFor(logging.DEBUG):
        return explain
    if explain is None:
        return log_choice

    def log_and_explain(decision: Decision, node_name: str) -> None:
        log_choice(decision, node_name)
        explain(decision, node_name)

    return log_and_explain


def log_choice(decision: Decision, node_name: str) -> None:
    """Log why a node was chosen."""
    on = grounds(decision)
    asked, passed = len(on.positions), len(on.feasible)
    fields: dict[str, object] = {"pod": pod_name(decision.question.pod), "node": node_name}
    if decision.question.is_nominated:
        fields["nominated"] = True
    fields |= {"asked": asked, "passed": passed, **explained(on, asked, passed, with_scores=True)}
    log_fields(log, logging.DEBUG, "chose a node", fields)

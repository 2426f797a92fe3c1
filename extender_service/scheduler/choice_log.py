"""One line of the log for each node that was chosen for a pod, at debug: how many nodes fit, why the others do not, and
what the best ones scored."""

import logging
from collections.abc import Callable

from extender_service.kube.types.core import pod_name
from extender_service.observability.logs import log_fields
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.explanation import explained, grounds, looked_at
from extender_service.seams import WallClock

log = logging.getLogger(__name__)

# Takes a decision and the name of the node that was chosen, before the pod is placed there.
Explain = Callable[[Decision, str], None]


def logging_choices(explain: Explain | None, wall_clock: WallClock) -> Explain | None:
    """Return what logs each choice, if the level of the log is debug by now, and then calls `explain`, if it is given.

    None if there is nothing to do.
    """
    if not log.isEnabledFor(logging.DEBUG):
        return explain

    def log_and_explain(decision: Decision, node_name: str) -> None:
        log_choice(decision, node_name, wall_clock())
        if explain is not None:
            explain(decision, node_name)

    return log_and_explain


def log_choice(decision: Decision, node_name: str, at: float) -> None:
    """Log why a node was chosen. `looked_at` says how many nodes there is a verdict on, where these are sampled."""
    on = grounds(decision)
    asked, looked, passed = len(on.positions), looked_at(decision.verdicts), len(on.feasible)
    fields: dict[str, object] = {"pod": pod_name(decision.question.pod), "node": node_name}
    if decision.question.is_nominated:
        fields["nominated"] = True
    fields["asked"] = asked
    if looked < asked:
        fields["looked_at"] = looked
    fields |= {"passed": passed, **explained(on, looked, passed, with_scores=True)}
    log_fields(log, logging.DEBUG, "chose a node", fields, at)

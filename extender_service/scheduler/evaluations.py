"""How often each plugin looked at a pod or a node (plugin_evaluation_total)."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from extender_service.framework.runtime import PreFilterOutcome
from extender_service.framework.status import Code
from extender_service.scheduling.decision import Decision


class Evaluations(Collector):
    """Counts, from decisions that were made: once for PreFilter and PreScore unless the plugin skipped the pod, and for
    each node that was left in Filter and Score."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def judged(self, decision: Decision) -> None:
        """Count a decision, with its scores if it has any."""
        if decision.is_final:
            return  # no plugin ran
        self._count_pre_filter(decision)
        if decision.pre_filter.rejection is None:
            self._count_filter(decision)
        self.scored(decision)

    def scored(self, decision: Decision) -> None:
        """Count the scores of a decision, if it has any."""
        if decision.scores is None:
            return
        skipped, profile = decision.state.skipped_scores, decision.profile
        for plugin in profile.pre_score:
            if plugin.name not in skipped:
                self._counts[plugin.name, "PreScore", profile.scheduler_name] += 1
        for scoring, _ in profile.score:
            if scoring.name not in skipped:
                self._counts[scoring.name, "Score", profile.scheduler_name] += len(decision.feasible)

    def collect(self) -> Iterator[Metric]:
        """Yield the counts."""
        family = CounterMetricFamily(
            "scheduler_plugin_evaluation",
            "Pods that a plugin looked at in PreFilter and PreScore, and nodes in Filter and Score.",
            labels=["plugin", "extension_point", "profile"],
        )
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family

    def _count_pre_filter(self, decision: Decision) -> None:
        skipped, profile = decision.state.skipped_filters, decision.profile
        last = _last_in_pre_filter(decision.pre_filter)
        for plugin in profile.pre_filter:
            if plugin.name not in skipped:
                self._counts[plugin.name, "PreFilter", profile.scheduler_name] += 1
            if plugin.name == last:
                break

    def _count_filter(self, decision: Decision) -> None:
        skipped, profile = decision.state.skipped_filters, decision.profile
        rejected: Counter[str] = Counter()
        for by, _, positions, _ in decision.verdicts.settled():
            rejected[by] += len(positions)
        left = int(np.count_nonzero(decision.verdicts.passing)) + rejected.total() - rejected[""]
        for plugin in profile.filter:
            if plugin.name not in skipped and left > 0:
                self._counts[plugin.name, "Filter", profile.scheduler_name] += left
                left -= rejected[plugin.name]


def _last_in_pre_filter(found: PreFilterOutcome) -> str:
    """Return the plugin behind which no other was asked, empty if all were."""
    rejection = found.rejection
    if rejection is None or rejection.code != Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    return rejection.plugin or found.restricting[-1]

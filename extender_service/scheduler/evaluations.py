"""How often each plugin looked at a pod or a node (plugin_evaluation_total)."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from extender_service.framework.runtime import PreFilterOutcome
from extender_service.framework.status import Code
from extender_service.scheduling.decision import Decision

# By plugin, extension point and profile.
_Counts = Counter[tuple[str, str, str]]


class Evaluations(Collector):
    """Counts, from decisions that were made: once for PreFilter and PreScore unless the plugin skipped the pod, and for
    each node that was left in Filter and Score; in Filter, each time that preemption tried a node, too."""

    def __init__(self) -> None:
        self._counts: _Counts = Counter()
        # The decision that is repeated, what it adds each time, and how often it was.
        self._repeated: Decision | None = None
        self._added: _Counts = Counter()
        self._times = 0

    def judged(self, decision: Decision) -> None:
        """Count a decision, with its scores if it has any."""
        if decision.is_final:
            return  # no plugin ran
        if decision.repeats is None:
            _count(decision, self._counts)
            return
        if decision.repeats is not self._repeated:
            self._add_repeated()
            self._repeated, self._added = decision.repeats, Counter()
            _count(decision, self._added)
        self._times += 1

    def tried_victims(self, decision: Decision) -> None:
        """Count what plugins judged while PostFilter ran for a decision without a feasible node."""
        for plugin, count in (decision.state.evaluated_again or {}).items():
            self._counts[plugin, "Filter", decision.profile.scheduler_name] += count

    def scored(self, decision: Decision) -> None:
        """Count the scores of a decision, if it has any."""
        _count_scores(decision, self._counts)

    def _add_repeated(self) -> None:
        for key, count in self._added.items():
            self._counts[key] += self._times * count
        self._times = 0

    def collect(self) -> Iterator[Metric]:
        """Yield the counts."""
        self._add_repeated()
        family = CounterMetricFamily(
            "scheduler_plugin_evaluation",
            "Pods that a plugin looked at in PreFilter and PreScore, and nodes in Filter and Score.",
            labels=["plugin", "extension_point", "profile"],
        )
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


def _count(decision: Decision, counts: _Counts) -> None:
    _count_pre_filter(decision, counts)
    if decision.pre_filter.rejection is None:
        _count_filter(decision, counts)
    _count_scores(decision, counts)


def _count_pre_filter(decision: Decision, counts: _Counts) -> None:
    skipped, profile = decision.state.skipped_filters, decision.profile
    last = _last_in_pre_filter(decision.pre_filter)
    for plugin in profile.pre_filter:
        if plugin.name not in skipped:
            counts[plugin.name, "PreFilter", profile.scheduler_name] += 1
        if plugin.name == last:
            break


def _count_filter(decision: Decision, counts: _Counts) -> None:
    skipped, profile = decision.state.skipped_filters, decision.profile
    rejected: Counter[str] = Counter()
    for settled in decision.verdicts.settled():
        rejected[settled.plugin] += len(settled.positions)
    left = int(np.count_nonzero(decision.verdicts.passing)) + rejected.total() - rejected[""]
    for plugin in profile.filter:
        if plugin.name not in skipped and left > 0:
            counts[plugin.name, "Filter", profile.scheduler_name] += left
            left -= rejected[plugin.name]


def _count_scores(decision: Decision, counts: _Counts) -> None:
    if decision.scores is None:
        return
    skipped, profile = decision.state.skipped_scores, decision.profile
    for plugin in profile.pre_score:
        if plugin.name not in skipped:
            counts[plugin.name, "PreScore", profile.scheduler_name] += 1
    for scoring, _ in profile.score:
        if scoring.name not in skipped:
            counts[scoring.name, "Score", profile.scheduler_name] += len(decision.feasible)


def _last_in_pre_filter(found: PreFilterOutcome) -> str:
    """Return the plugin behind which no other was asked, empty if all were."""
    rejection = found.rejection
    if rejection is None or rejection.code != Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    return rejection.plugin or found.restricting[-1]

"""How often each plugin looked at a pod or a node (plugin_evaluation_total)."""

from collections import Counter
from collections.abc import Collection, Iterator

from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from extender_service.framework.filtering import PreFilterOutcome
from extender_service.framework.profile import Profile
from extender_service.framework.status import Code
from extender_service.scheduling.decision import Decision

# By plugin, extension point and profile.
_Counts = Counter[tuple[str, str, str]]
# What decisions have in common that were made by the same plugins: the profile, and the plugins that were skipped.
_Made = tuple[Profile, frozenset[str], frozenset[str]]
# Pods that are unlike skip different plugins, mostly in a few ways.
_MOST_SUMS = 64


class Evaluations(Collector):
    """Counts, from decisions that were made: once for PreFilter and PreScore unless the plugin skipped the pod, and for
    each node that was left in Filter and Score; in Filter, each time that preemption tried a node, too."""

    def __init__(self) -> None:
        self._counts: _Counts = Counter()
        # The decision that is repeated, and how often it was.
        self._repeated: Decision | None = None
        self._times = 0
        self._sums: dict[_Made, _Sums] = {}

    def judged(self, decision: Decision) -> None:
        """Count a decision, with its scores if it has any."""
        if decision.is_final:
            return  # no plugin ran
        if decision.repeats is None:
            self._add(decision)
            return
        if decision.repeats is not self._repeated:
            self._add_repeated()
            self._repeated = decision.repeats
        self._times += 1

    def tried_victims(self, decision: Decision) -> None:
        """Count what plugins judged while PostFilter ran for a decision without a feasible node."""
        for plugin, count in (decision.state.evaluated_again or {}).items():
            self._counts[plugin, "Filter", decision.profile.scheduler_name] += count

    def scored(self, decision: Decision) -> None:
        """Count the scores of a decision, if it has any."""
        _count_scores(decision, self._counts)

    def _add(self, decision: Decision, times: int = 1) -> None:
        if not decision.verdicts.left:
            _count(decision, self._counts)
            return
        state = decision.state
        made = (decision.profile, frozenset(state.skipped_filters), frozenset(state.skipped_scores))
        sums = self._sums.get(made)
        if sums is None:
            if len(self._sums) >= _MOST_SUMS:
                self._add_sums()
            sums = self._sums[made] = _Sums(*made)
        sums.add(decision, times)

    def _add_repeated(self) -> None:
        if self._repeated is not None:
            self._add(self._repeated, self._times)
        self._repeated, self._times = None, 0

    def _add_sums(self) -> None:
        for sums in self._sums.values():
            sums.count(self._counts)
        self._sums.clear()

    def collect(self) -> Iterator[Metric]:
        """Yield the counts."""
        self._add_repeated()
        self._add_sums()
        family = CounterMetricFamily(
            "scheduler_plugin_evaluation",
            "Pods that a plugin looked at in PreFilter and PreScore, and nodes in Filter and Score.",
            labels=["plugin", "extension_point", "profile"],
        )
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


class _Sums:
    """Decisions that found a node and were made by the same plugins: these are gone through once for all of them."""

    def __init__(self, profile: Profile, skipped_filters: frozenset[str], skipped_scores: frozenset[str]) -> None:
        self._profile = profile
        self._skipped_filters = skipped_filters
        self._skipped_scores = skipped_scores
        self._decisions = self._judged_nodes = 0
        self._scored_decisions = self._scored_nodes = 0
        self._rejected: Counter[str] = Counter()

    def add(self, decision: Decision, times: int) -> None:
        """Add a decision that was made so many times."""
        judged = decision.verdicts.left
        for settled in decision.verdicts.settled():
            if settled.plugin:  # not left out by PreFilter
                rejected = len(settled.positions)
                judged += rejected
                self._rejected[settled.plugin] += times * rejected
        self._decisions += times
        self._judged_nodes += times * judged
        if decision.scores is not None:
            self._scored_decisions += times
            self._scored_nodes += times * len(decision.feasible)

    def count(self, counts: _Counts) -> None:
        """Add what the plugins looked at to the counts."""
        profile, name = self._profile, self._profile.scheduler_name
        for plugin in profile.pre_filter:
            if plugin.name not in self._skipped_filters:
                counts[plugin.name, "PreFilter", name] += self._decisions
        left = self._judged_nodes
        for filtering in profile.filter:
            if filtering.name not in self._skipped_filters:
                counts[filtering.name, "Filter", name] += left
                left -= self._rejected[filtering.name]
        if self._scored_decisions:
            _add_scores(profile, self._skipped_scores, self._scored_decisions, self._scored_nodes, counts)


def _count(decision: Decision, counts: _Counts) -> None:
    """Count a decision that found no node. After one about the nominated node alone, there is one about all nodes, and
    PreFilter counts in that: kube-scheduler runs it once for both."""
    if not decision.question.is_nominated:
        _count_pre_filter(decision, counts)
    if decision.pre_filter.rejection is None:
        _count_filter(decision, counts)


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
    left = rejected.total() - rejected[""]
    for plugin in profile.filter:
        if plugin.name not in skipped and left > 0:
            counts[plugin.name, "Filter", profile.scheduler_name] += left
            left -= rejected[plugin.name]


def _count_scores(decision: Decision, counts: _Counts) -> None:
    if decision.scores is None:
        return
    _add_scores(decision.profile, decision.state.skipped_scores, 1, len(decision.feasible), counts)


def _add_scores(profile: Profile, skipped: Collection[str], decisions: int, nodes: int, counts: _Counts) -> None:
    for plugin in profile.pre_score:
        if plugin.name not in skipped:
            counts[plugin.name, "PreScore", profile.scheduler_name] += decisions
    for scoring, _ in profile.score:
        if scoring.name not in skipped:
            counts[scoring.name, "Score", profile.scheduler_name] += nodes


def _last_in_pre_filter(found: PreFilterOutcome) -> str:
    """Return the plugin behind which no other was asked, empty if all were."""
    rejection = found.rejection
    if rejection is None or rejection.code != Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    return rejection.plugin or found.restricting[-1]

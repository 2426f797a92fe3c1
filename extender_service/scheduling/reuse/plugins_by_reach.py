"""How the plugins are asked about the next pod of a run: by how far a pod that was placed reaches for each of them."""

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Filter, Plugin, PreFilter, PreScore, Reach, Score
from extender_service.framework.plugin_errors import RAISED
from extender_service.scheduling.decision import Decision

log = logging.getLogger(__name__)

P = TypeVar("P", bound=Plugin)


class PluginsByReach(NamedTuple):
    """The plugins of a run, except those that skip its pods. Scores are by the row that a plugin has in a decision.

    `scoring` are all that score, with their `weights`. Those with `Reach.CLUSTER` are asked about each pod, about all
    nodes:

    - `cluster_wide_pre_filters`, also those that skip their Filter
    - `cluster_wide_filters`, `cluster_wide_pre_scores`, `cluster_wide_scores`

    The others are asked only about the node that was taken, or not at all:

    - `per_node_filters`: in the order of the profile; `fixed_filters` are the names of those whose verdicts stay the
      same (`Reach.NONE`)
    - `per_node_pre_scores`, `per_node_scores`: what they say about a node changes where a pod is placed on it, and only
      there (`Reach.NODE`)
    - `fixed_scores`: what they say changes only with the nodes that are feasible (`Reach.NONE`)
    """

    scoring: list[Score]
    weights: list[int]
    cluster_wide_pre_filters: list[PreFilter]
    cluster_wide_filters: list[Filter]
    cluster_wide_pre_scores: list[PreScore]
    cluster_wide_scores: dict[int, Score]
    per_node_filters: list[Filter]
    fixed_filters: frozenset[str]
    per_node_pre_scores: list[PreScore]
    per_node_scores: dict[int, Score]
    fixed_scores: dict[int, Score]

    @classmethod
    def of(cls, decision: Decision, state: CycleState) -> "PluginsByReach | None":
        """Sort the plugins of a decision by their reach; None if the decision about the next pod cannot follow from it.

        `state` is that of the decision, before Reserve.
        """
        profile = decision.profile
        weights = {plugin: weight for plugin, weight in profile.score if plugin.name not in state.skipped_scores}
        scoring = [*weights]
        # One instance of a plugin serves all of its extension points.
        asked = {plugin.name: plugin for plugin in (*profile.pre_filter, *profile.filter, *profile.pre_score, *scoring)}
        reaches = {name: _reach_of(plugin, state) for name, plugin in asked.items()}
        filters = [plugin for plugin in profile.filter if plugin.name not in state.skipped_filters]
        cluster_wide_filters = _reaching(Reach.CLUSTER, filters, reaches)
        cluster_wide_pre_filters = _reaching(Reach.CLUSTER, profile.pre_filter, reaches)
        per_node_scores = _reaching(Reach.NODE, scoring, reaches)
        may_choose = bool(cluster_wide_filters) or any(
            each.name not in state.skipped_filters for each in cluster_wide_pre_filters
        )
        if may_choose and decision.pre_filter.node_names is not None:
            return None
        if any(type(plugin).normalize is not Score.normalize for plugin in per_node_scores):
            return None
        return cls(
            scoring,
            [*weights.values()],
            cluster_wide_pre_filters,
            cluster_wide_filters,
            _reaching(Reach.CLUSTER, profile.pre_score, reaches),
            {scoring.index(plugin): plugin for plugin in _reaching(Reach.CLUSTER, scoring, reaches)},
            [plugin for plugin in filters if plugin not in cluster_wide_filters],
            frozenset([plugin.name for plugin in _reaching(Reach.NONE, filters, reaches)]),
            _reaching(Reach.NODE, profile.pre_score, reaches),
            {scoring.index(plugin): plugin for plugin in per_node_scores},
            {scoring.index(plugin): plugin for plugin in _reaching(Reach.NONE, scoring, reaches)},
        )


def _reaching(reach: Reach, plugins: Iterable[P], reaches: Mapping[str, Reach]) -> list[P]:
    return [plugin for plugin in plugins if reaches[plugin.name] is reach]


def _reach_of(plugin: Plugin, state: CycleState) -> Reach:
    """Return the reach of a plugin for pods like that of a state; any answer may differ if it fails to say."""
    try:
        reach: object = plugin.reach_for(state, state.pod)
    except RAISED:
        log.exception("reach_for failed", extra={"plugin": plugin.name})
        return Reach.CLUSTER
    if isinstance(reach, Reach):
        return reach
    log.error("reach_for must return a Reach", extra={"plugin": plugin.name, "returned": type(reach).__name__})
    return Reach.CLUSTER

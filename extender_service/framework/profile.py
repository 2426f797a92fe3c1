"""A profile: the plugins of one scheduler name, made and sorted by extension point."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import TypeVar

from extender_service.cluster.amounts.requests import OLDEST_REQUEST_RULES, RequestRules
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import (
    Bind,
    Filter,
    Permit,
    Plugin,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    QueueSort,
    Reserve,
    Score,
)
from extender_service.framework.recording import Recorder
from extender_service.framework.waiting_pods import WaitingPods
from extender_service.kube.types.core import Pod
from extender_service.seams import RANDOM, Clock

# The share of decisions whose plugins are timed, as in kube-scheduler (pluginMetricsSamplePercent).
SAMPLED = 0.1

P = TypeVar("P", bound=Plugin)


class Profile:
    """The plugins that decide about pods of one scheduler name, in the order in which they run.

    A `recorder`, if set, gets the durations of extension points and plugins.
    """

    def __init__(
        self,
        scheduler_name: str,
        plugins: Mapping[str, Sequence[tuple[Plugin, int]]],
        waiting_pods: WaitingPods | None = None,
        *,
        clock: Clock = time.monotonic,
        random: Random = RANDOM,
        request_rules: RequestRules = OLDEST_REQUEST_RULES,
    ) -> None:
        """`plugins` are (plugin, weight) by the configuration's name of the extension point.

        `waiting_pods`, which profiles share, has the pods that Permit makes wait. Deadlines of decisions are in seconds
        of `clock`. `random` chooses among the best nodes. `request_rules` say what pods request.
        """
        self.scheduler_name = scheduler_name
        self.clock = clock
        self.random = random
        self.request_rules = request_rules
        self.recorder: Recorder | None = None
        self.waiting_pods = WaitingPods() if waiting_pods is None else waiting_pods
        self.pre_enqueue = _serving(PreEnqueue, plugins.get("preEnqueue", ()))
        self.queue_sort = _serving(QueueSort, plugins.get("queueSort", ()))
        self.pre_filter = _serving(PreFilter, plugins.get("preFilter", ()))
        self.filter = _serving(Filter, plugins.get("filter", ()))
        self.post_filter = _serving(PostFilter, plugins.get("postFilter", ()))
        self.pre_score = _serving(PreScore, plugins.get("preScore", ()))
        self.reserve = _serving(Reserve, plugins.get("reserve", ()))
        self.permit = _serving(Permit, plugins.get("permit", ()))
        self.pre_bind = _serving(PreBind, plugins.get("preBind", ()))
        self.bind = _serving(Bind, plugins.get("bind", ()))
        self.post_bind = _serving(PostBind, plugins.get("postBind", ()))
        self.score = tuple((plugin, weight) for plugin, weight in plugins.get("score", ()) if isinstance(plugin, Score))

    def new_state(self, pod: Pod, deadline: float = math.inf) -> CycleState:
        """Return the state for a new decision about a pod; a random sample of decisions has its plugins timed."""
        return CycleState(pod, self.sampled_recorder(), deadline, self.clock, self.request_rules)

    def sampled_recorder(self) -> Recorder | None:
        """Return the recorder for a random sample of decisions, None for the others."""
        recorder = self.recorder
        return None if recorder is None or self.random.random() >= SAMPLED else recorder

    @cached_property
    def treats_alike(self) -> bool:
        """Whether all plugins that take part in decisions treat pods alike (see Plugin.treats_alike)."""
        scoring = [plugin for plugin, _ in self.score]
        return all(plugin.treats_alike for plugin in (*self.pre_filter, *self.filter, *self.pre_score, *scoring))

    @cached_property
    def filter_regardless_of_pods(self) -> frozenset[str]:
        """The names of the plugins whose Filter does not depend on pods."""
        return frozenset(
            plugin.name
            for plugin in self.filter
            if not plugin.depends_on_pods and _goes_with_filter(plugin, "depends_on_pods")
        )

    @cached_property
    def filter_by_needs(self) -> frozenset[str]:
        """The names of the plugins that may say what a node needs to have left instead of running Filter."""
        return frozenset(plugin.name for plugin in self.filter if _goes_with_filter(plugin, "needs"))

    @property
    def rejecting(self) -> tuple[Plugin, ...]:
        """The plugins whose rejection is remembered with the pod, each once: those of all points that can reject."""
        points = (self.pre_enqueue, self.pre_filter, self.filter, self.reserve, self.permit, self.pre_bind)
        return tuple({plugin.name: plugin for point in points for plugin in point}.values())

    @property
    def needs_state_to_bind(self) -> bool:
        """Whether plugins act after the decision, and need the state that they stored in it.

        A plugin that only binds, as DefaultBinder does, has stored none.
        """
        deciding: tuple[Plugin, ...] = (*self.pre_filter, *self.filter)
        needs_at_bind = any(plugin in deciding for plugin in (*self.bind, *self.post_bind))
        return needs_at_bind or bool(self.reserve or self.permit or self.pre_bind)

    @cached_property
    def max_total(self) -> int:
        """The highest total score that a node can get."""
        return 100 * sum(weight for _, weight in self.score)


def _serving(point: type[P], plugins: Iterable[tuple[Plugin, int]]) -> tuple[P, ...]:
    return tuple(plugin for plugin, _ in plugins if isinstance(plugin, point))


def _goes_with_filter(plugin: Filter, name: str) -> bool:
    """Return whether the class that has a plugin's Filter, or one that is derived from it, has an attribute."""
    for each in type(plugin).__mro__:
        if name in each.__dict__:
            return each is not Filter
        if "filter" in each.__dict__:
            return False
    return False

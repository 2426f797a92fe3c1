"""Users' plugins that do not say the same of pods alike: they have no opinion at times, name nodes, refuse some of
them, score out of range, fail, or take long.

Name them with `--plugin tests.worlds.settings.fickle:FickleNearby`, and enable them in the configuration. Their moods
are over when those of all plugins are (plugin_moods.py).
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Filter, PreBind, PreFilter, PreScore, Reach, Score
from extender_service.framework.status import SKIP, Code, Rejections, Status
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from tests.worlds.settings.plugin_moods import BAD_MOOD, moods_here
from tests.worlds.simulation.simulated_loop import running_loop

# In which ways it is odd, of which a process has some, and how often.
_WAYS: Final = (
    "fails", "takes long", "skips Filter", "names nodes", "errs about nodes", "refuses nodes", "skips Score",
    "scores out of range", "fails in PreBind",
)  # fmt: skip
_MOST_WAYS: Final = 5
_RATES: Final = (0.05, 0.1, 0.2)
# A pod is not refused more often than that in one process, and tried again so long after it was.
_MOST_REFUSALS: Final = 3
_SULKS_SECONDS: Final = 1.0
_REFUSALS: Final = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
# The share of nodes in odd answers about some of them.
_SOME: Final = 0.3
_OUT_OF_RANGE: Final = (-1, 101)
# It takes long only where attempts have less time than that: otherwise its program would lose the lease.
_SHORT_SECONDS: Final = 0.5
# So often the plugin that looks at all nodes says that it does not, and so often how far it reaches is no answer.
_SHORT_SIGHTED: Final = 0.1
_NO_REACH: Final = 0.05


class _Fickle(PreFilter, Filter, PreScore, Score):
    """Answers mostly as if it had nothing against any node."""

    treats_alike = True

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._loop = running_loop()
        self._moods, program = moods_here()
        self._random = self._moods.random(f"moods of {program}, {self.name}")
        ways = self._random.sample(_WAYS, self._random.randint(2, _MOST_WAYS))
        self._rates = dict.fromkeys(ways, self._random.choice(_RATES))
        self._refused: Counter[str] = Counter()

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | Collection[str] | None:
        self._fail_or_take_long(state)
        if self._is_odd("skips Filter"):
            return SKIP
        return self.handle.cluster.node_names() if self._is_odd("names nodes") else None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        self._fail_or_take_long(state)
        if self._is_odd("errs about nodes"):
            return Rejections.where(self._some(nodes), Status(Code.ERROR, (BAD_MOOD,)))
        if self._refused[pod_uid(pod)] < _MOST_REFUSALS and self._is_odd("refuses nodes"):
            self._refused[pod_uid(pod)] += 1
            self._loop.call_later(_SULKS_SECONDS, self.handle.activate, [pod])
            return Rejections.where(self._some(nodes), Status(self._random.choice(_REFUSALS), ("not now",)))
        return None

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        self._fail_or_take_long(state)
        return SKIP if self._is_odd("skips Score") else None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        self._fail_or_take_long(state)
        scores = self._scores(nodes)
        if len(nodes) and self._is_odd("scores out of range"):
            scores[self._random.randrange(len(nodes))] = self._random.choice(_OUT_OF_RANGE)
        return scores

    @abstractmethod
    def _scores(self, nodes: NodeView) -> NDArray[np.int64]:
        """Return a score for each node."""

    def _some(self, nodes: NodeView) -> NDArray[np.bool_]:
        return np.array([self._random.random() < _SOME for _ in range(len(nodes))], np.bool_)

    def _fail_or_take_long(self, state: CycleState) -> None:
        if self._is_odd("fails"):
            raise RuntimeError(BAD_MOOD)
        left_seconds = state.deadline - self._loop.time()
        if 0.0 < left_seconds < _SHORT_SECONDS and self._is_odd("takes long"):
            self._loop.compute(left_seconds * self._random.uniform(0.2, 1.3))

    def _is_odd(self, way: str) -> bool:
        return not self._moods.are_over and self._random.random() < self._rates.get(way, 0.0)


class FickleNearby(_Fickle, PreBind):
    """Looks at each node by itself. It also has work to do before a pod is bound, at times, as it says beforehand."""

    name = "FickleNearby"
    reach = Reach.NODE

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if self._is_odd("fails in PreBind"):
            raise RuntimeError(BAD_MOOD)
        if self._is_odd("fails in PreBind"):
            return Status(Code.ERROR, (BAD_MOOD,))
        return SKIP if self._random.random() < 0.5 else None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def _scores(self, nodes: NodeView) -> NDArray[np.int64]:
        names = [sum(name.encode()) % 7 for name in nodes.names]
        return np.asarray(names, np.int64) + nodes.requested(nodes.dimension("cpu")) % 10


class FickleAnywhere(_Fickle):
    """Looks at all nodes together. It does not always say so, or say how far it looks at all."""

    name = "FickleAnywhere"

    def reach_for(self, state: CycleState, pod: Pod) -> Reach:
        if self._is_odd("fails"):
            raise RuntimeError(BAD_MOOD)
        drawn = 1.0 if self._moods.are_over else self._random.random()
        if drawn < _NO_REACH:
            return cast(Reach, "far")
        return Reach.NODE if drawn < _NO_REACH + _SHORT_SIGHTED else Reach.CLUSTER

    def normalize(self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        return scores - (scores.min() if len(scores) else 0)

    def _scores(self, nodes: NodeView) -> NDArray[np.int64]:
        pods = self.handle.cluster.pod_count
        return np.array([(sum(name.encode()) + pods) % 11 for name in nodes.names], np.int64)

"""Users' plugins that refuse, delay and fail, at each extension point that a pod passes on its way to its node.

Name them with `--plugin tests.worlds.settings.moody:Moody`, and enable them in the configuration.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from extender_service.cluster.view.node_view import NodeView
from extender_service.framework.cluster_event import ActionType, ClusterEvent, QueueingHint
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import (
    Bind,
    Filter,
    Permit,
    PostBind,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    QueuedPod,
    QueueSort,
    Reach,
    Reserve,
    Score,
)
from extender_service.framework.status import SKIP, Code, Rejections, Status, unresolvable
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from tests.worlds.settings.plugin_moods import BAD_MOOD, moods_here
from tests.worlds.simulation.simulated_loop import running_loop

# Moody's users write objects of this kind when it should look again.
KIND: Final = "configmaps.v1."
# A pod is not troubled more often than that in one process.
_MOST_TROUBLES: Final = 3
# A pod that it has refused is tried again so soon.
_SULKS_SECONDS: Final = 1.0
_HOLDS_SECONDS: Final = 5.0
_WAITS_SECONDS: Final = 4.0
# So often comparisons of pods, and answers about nodes, are errors.
_ORDER_FAILS: Final = 0.01
_NODES_FAIL: Final = 0.03
_REFUSALS: Final = (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)
_TROUBLES: Final = (
    "holds", "fails in PreEnqueue", "refuses in Reserve", "fails in Reserve", "refuses in Permit", "fails in Permit",
    "waits in Permit", "has work in PreBind", "refuses in PreBind", "fails in PreBind", "fails in Bind",
    "raises in Unreserve", "raises in PostBind", "fails in a hint",
)  # fmt: skip


class Moody(PreEnqueue, Reserve, Permit, PreBind, Bind, PostBind):
    """Makes trouble for some pods, each some times at most. It has those tried again that it has refused or held."""

    name = "Moody"
    retry_on = (ClusterEvent(KIND, ActionType.ADD | ActionType.UPDATE | ActionType.DELETE),)

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._loop = running_loop()
        self._moods, program = moods_here()
        self._rates = _draw_rates(self._moods.random_of_all("moods"))
        self._random = self._moods.random(f"moods of {program}")
        self._troubles: dict[str, int] = {}
        self._held_until: dict[str, float] = {}

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: Any, new: Any) -> QueueingHint:
        if self._troubles_with("fails in a hint", pod):
            raise RuntimeError(BAD_MOOD)
        return QueueingHint.SKIP if new is None else QueueingHint.QUEUE

    def pre_enqueue(self, pod: Pod) -> Status | None:
        uid = pod_uid(pod)
        if uid not in self._held_until and self._troubles_with("holds", pod):
            seconds = self._random.uniform(0.0, _HOLDS_SECONDS)
            self._held_until[uid] = self._loop.time() + seconds
            self._activate_later(pod, seconds)
        if self._held_until.get(uid, 0.0) > self._loop.time():
            return unresolvable("held")
        if self._troubles_with("fails in PreEnqueue", pod):
            self._activate_later(pod, _SULKS_SECONDS)
            raise RuntimeError(BAD_MOOD)
        return None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._refuse_or_fail("Reserve", pod)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if self._troubles_with("raises in Unreserve", pod):
            raise RuntimeError(BAD_MOOD)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        if self._troubles_with("waits in Permit", pod):
            self._loop.call_later(self._random.uniform(0.0, 1.5 * _WAITS_SECONDS), self._end_wait, pod)
            self._activate_later(pod, _WAITS_SECONDS + _SULKS_SECONDS)  # if its time runs out
            return Status(Code.WAIT, ("waits",)), _WAITS_SECONDS
        return self._refuse_or_fail("Permit", pod), 0.0

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if self._troubles_with("has work in PreBind", pod):
            await asyncio.sleep(self._random.uniform(0.0, _WAITS_SECONDS))
        return self._refuse_or_fail("PreBind", pod)

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._refuse_or_fail("Bind", pod) or SKIP

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if self._troubles_with("raises in PostBind", pod):
            raise RuntimeError(BAD_MOOD)

    def _refuse_or_fail(self, point: str, pod: Pod) -> Status | None:
        if self._troubles_with(f"refuses in {point}", pod):
            self._activate_later(pod, _SULKS_SECONDS)
            return Status(self._random.choice(_REFUSALS), ("not now",))
        if self._troubles_with(f"fails in {point}", pod):
            if self._random.random() < 0.5:
                raise RuntimeError(BAD_MOOD)
            return Status(Code.ERROR, (BAD_MOOD,))
        return None

    def _end_wait(self, pod: Pod) -> None:
        """Allow a pod to be bound, or refuse; its time may be over by now."""
        waiting = self.handle.waiting_pods.get(pod_uid(pod))
        if waiting is None:
            return
        if self._random.random() < 0.7:
            waiting.allow(self.name)
        else:
            waiting.reject(self.name, "not after all")
            self._activate_later(pod, _SULKS_SECONDS)

    def _activate_later(self, pod: Pod, seconds: float) -> None:
        self._loop.call_later(seconds, self.handle.activate, [pod])

    def _troubles_with(self, kind: str, pod: Pod) -> bool:
        rate = self._rates.get(kind)
        if rate is None or self._moods.are_over:
            return False
        uid = pod_uid(pod)
        if self._troubles.get(uid, 0) >= _MOST_TROUBLES or self._random.random() >= rate:
            return False
        self._troubles[uid] = self._troubles.get(uid, 0) + 1
        return True


def _draw_rates(random: Random) -> Mapping[str, float]:
    """Draw how often the plugin does what; some of that it never does."""
    rate = random.choice((0.05, 0.15, 0.4))
    kinds = random.sample(_TROUBLES, random.randint(2, len(_TROUBLES)))
    return dict.fromkeys(sorted(kinds), rate)


class OldestFirst(QueueSort):
    """Sorts pods by age alone. Some comparisons fail."""

    name = "OldestFirst"

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._moods, program = moods_here()
        self._random = self._moods.random(f"moods of {program} about the order")

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        if not self._moods.are_over and self._random.random() < _ORDER_FAILS:
            raise RuntimeError(BAD_MOOD)
        return first.queued_at < second.queued_at


class Fussy(PreFilter, Filter, PreScore, Score):
    """Prefers nodes by their names and by what their pods request. Some of its answers are errors."""

    name = "Fussy"
    treats_alike = True
    retry_on = ()

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._moods, program = moods_here()
        self._random = self._moods.random(f"moods of {program} about nodes")

    def reach_for(self, state: CycleState, pod: Pod) -> Reach:
        self._fail_sometimes()
        return Reach.NODE

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        self._fail_sometimes()
        return None

    def filter(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections | None:
        self._fail_sometimes()
        return None

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeView) -> Status | None:
        self._fail_sometimes()
        return None

    def score(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        self._fail_sometimes()
        names = [sum(name.encode()) % 7 for name in nodes.names]
        return np.asarray(names, np.int64) + nodes.requested(nodes.dimension("cpu")) % 10

    def _fail_sometimes(self) -> None:
        if not self._moods.are_over and self._random.random() < _NODES_FAIL:
            raise RuntimeError(BAD_MOOD)

"""The search for a node of one attempt in which extenders have a say (findNodesThatFitPod, prioritizeNodes).

kube-scheduler works on a snapshot while extenders answer. Here the watch goes on, and the columns change with it. So
after each answer, what the plugins said counts only if the cluster is still at the version that they saw. If it is not,
they judge again: the nodes that are left must still be feasible.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.framework.queueing_hints import EXTENDER
from extender_service.framework.runtime import SampleNodes
from extender_service.kube.types.core import Pod, pod_name
from extender_service.scheduler.extenders.extender_client import ExtenderError
from extender_service.scheduler.extenders.extenders import Extenders, Statuses
from extender_service.scheduler.metrics.attempts import AttemptMetrics
from extender_service.scheduler.node_sampling import NodeSampling
from extender_service.scheduler.time_limit import TimeLimit
from extender_service.scheduling.asked_nodes import AskedNodes
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question

log = logging.getLogger(__name__)


class Found(NamedTuple):
    """The outcome of a search: the node for the pod, "" for none, and a decision that holds now.

    If there is no node, the verdicts of the decision have what extenders said, too, and `has_removed` is whether they
    removed any.
    """

    decision: Decision
    node_name: str
    has_removed: bool = False


class ExtendedSearch:
    """Searches a node for one pod."""

    def __init__(
        self,
        engine: Engine,
        extenders: Extenders,
        sampling: NodeSampling | None,
        metrics: AttemptMetrics,
        limit: TimeLimit,
        pod: Pod,
    ) -> None:
        self._engine = engine
        self._metrics = metrics
        self._extenders = extenders
        self._sampling = sampling
        self._limit = limit
        self._pod = pod
        self._statuses: Statuses = {}
        self._version = engine.cluster.version

    async def run(self) -> Found:
        """Search. Raises CycleError, QuantityError, ExtenderError."""
        nominated = self._pod.status.nominated_node_name
        judged = ""
        if nominated and self._engine.cluster.nodes.is_node(nominated):
            try:
                decision = await self._on_nominated_node(nominated)
            except OutOfTimeError:
                raise  # nor is there time for other nodes
            except (CycleError, ExtenderError) as error:
                extra = {"pod": pod_name(self._pod), "node": nominated, "error": str(error)}
                log.warning("cannot evaluate the nominated node", extra=extra)
                if nominated in self._statuses:  # an extender gave a reason before another one failed
                    judged = nominated
            else:
                if decision is not None:
                    return Found(decision, nominated)
                judged = nominated
        sample_nodes = None if self._sampling is None else partial(self._sampling.narrow, judged=judged)
        decision = self._decide(self._engine.nodes.all(), sample_nodes)
        names = _feasible(decision)
        with self._limit.left_out():
            left = await self._extenders.filter(self._pod, names, self._statuses)
        has_removed = len(left) != len(names)
        if not left:
            return Found(self._refused(decision), "", has_removed)
        return await self._best(decision, left)

    async def _on_nominated_node(self, name: str) -> Decision | None:
        """Return a decision that holds now if the nominated node passes, None if it does not."""
        decision = self._decide(self._engine.nodes.named_once([name]), is_nominated=True)
        if not len(decision.feasible):
            return None
        with self._limit.left_out():
            left = await self._extenders.filter(self._pod, [name], self._statuses)
        return self._current(decision, [name], is_nominated=True) if left else None

    async def _best(self, decision: Decision, names: Sequence[str]) -> Found:
        """Score some of the feasible nodes, if there is a choice, and take one of the best."""
        decision = self._current(decision, names, must_score=True)
        self._metrics.scored(decision)
        names = _feasible(decision)
        if len(names) == 1:
            return Found(decision, names[0])
        totals = np.zeros(len(names), np.int64) if decision.totals is None else decision.totals
        with self._limit.left_out():
            totals = totals + await self._extenders.priorities(self._pod, names)
        decision = self._current(decision, names)
        left = set(_feasible(decision))
        is_left = np.array([name in left for name in names])
        best = np.flatnonzero(is_left & (totals == totals[is_left].max()))
        return Found(decision, names[int(best[decision.profile.random.randrange(len(best))])])

    def _current(
        self, decision: Decision, names: Sequence[str], *, must_score: bool = False, is_nominated: bool = False
    ) -> Decision:
        """Return a decision that holds now, in which all feasible nodes are among `names`. Raises CycleError."""
        decision.state.deadline = self._limit.deadline
        if self._engine.cluster.version == self._version:
            feasible = decision.feasible
            if len(names) < len(feasible):
                feasible = np.sort(decision.question.nodes.view.positions_of(names))
            return self._engine.narrowed(decision, feasible, must_score=must_score)
        again = self._decide(self._engine.nodes.named_once(names), is_nominated=is_nominated)
        if not len(again.feasible):
            raise CycleError("the nodes that passed the extenders do not fit any more")
        return self._engine.narrowed(again, again.feasible, must_score=must_score)

    def _refused(self, decision: Decision) -> Decision:
        """Return a decision that holds now, and in which no node is feasible, for what plugins and extenders say."""
        decision.state.deadline = self._limit.deadline
        if self._engine.cluster.version != self._version:
            # A node that has become feasible meanwhile was not asked about. The change will wake the pod.
            decision = self._decide(self._engine.nodes.all())
        feasible = decision.feasible
        if not len(feasible):
            return decision
        names = decision.question.nodes.view.names_at(feasible)
        decision.verdicts.refuse(EXTENDER, feasible, [self._statuses.get(name) for name in names])
        none: NDArray[np.intp] = feasible[:0]
        return self._engine.narrowed(decision, none, must_score=False)

    def _decide(
        self, nodes: AskedNodes, sample_nodes: SampleNodes | None = None, *, is_nominated: bool = False
    ) -> Decision:
        self._version = self._engine.cluster.version
        question = Question(
            self._pod,
            nodes,
            self._limit.deadline,
            must_score=False,
            refuses_unsupported=True,
            sample_nodes=sample_nodes,
            is_nominated=is_nominated,
        )
        decision = self._engine.decide(question)
        self._metrics.judged(decision)
        return decision


def _feasible(decision: Decision) -> list[str]:
    return decision.question.nodes.view.names_at(decision.feasible)

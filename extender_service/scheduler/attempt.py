"""One attempt to find a node for a pod: the scheduling cycle (schedulePod and schedulingCycle in schedule_one.go)."""

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

import msgspec

from extender_service.cluster.state.placements import Placement
from extender_service.framework.guard import CycleError, OutOfTimeError
from extender_service.framework.interface import PostFilterResult
from extender_service.framework.queueing_hints import EXTENDER
from extender_service.framework.status import Code, Status
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import Pod, pod_name
from extender_service.scheduler.choice_log import Explain
from extender_service.scheduler.extenders.agreed_preemption import agreed_preemption
from extender_service.scheduler.extenders.extended_search import ExtendedSearch
from extender_service.scheduler.extenders.extender_client import ExtenderError
from extender_service.scheduler.extenders.extenders import NO_EXTENDERS, Extenders
from extender_service.scheduler.failure import NO_NODES_AVAILABLE, Failure
from extender_service.scheduler.fit_error import FitError, fit_error_of
from extender_service.scheduler.metrics.attempts import UNCOUNTED, AttemptMetrics
from extender_service.scheduler.node_sampling import NodeSampling
from extender_service.scheduler.time_limit import TimeLimit
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.eviction import Victim, victim_in
from extender_service.scheduling.question import Question

log = logging.getLogger(__name__)

# What stands for the plugins that judge a field which none here does, among those that rejected a pod. It registers no
# event: the pod waits for the flush of leftovers. With no plugin to blame, it would come back after each backoff, as
# after an error.
NOT_JUDGED: Final = "NotJudged"


class Preemption(msgspec.Struct, frozen=True):
    """Victims to evict for a pod: `failure` is what its attempt ends with once they are deleted.

    `plugin` is the PostFilter plugin that chose the node. `fit_error` is what the attempt ends with if a deletion
    fails, with the reason of that added.
    """

    node_name: str
    plugin: str
    victims: Sequence[Victim]
    failure: Failure
    fit_error: FitError


Outcome = Placement | Preemption | Failure


class Attempts:
    """Attempts pods, one at a time, each within the `limit`. Without `sampling`, all nodes are looked at. `explain`, if
    given, is called for each node that is chosen."""

    def __init__(
        self,
        engine: Engine,
        limit: TimeLimit,
        sampling: NodeSampling | None = None,
        extenders: Extenders = NO_EXTENDERS,
        metrics: AttemptMetrics = UNCOUNTED,
        explain: Explain | None = None,
    ) -> None:
        self.limit = limit
        self._engine = engine
        self._metrics = metrics
        self._sampling = sampling
        self._extenders = extenders
        # Decided once, so that attempts execute nothing more where no choice is explained.
        self._place: Callable[[Decision, str], Placement] = (
            self._reserve if explain is None else partial(self._explain_and_reserve, explain)
        )

    def asks_extenders(self, pod: Pod) -> bool:
        """Return whether an attempt of this pod awaits extenders."""
        return self._extenders.are_interested(pod)

    async def attempt(self, pod: Pod) -> Outcome:
        """Find a node for a pod: reserve one, with Permit run, or return the pods to preempt for it, or the failure.

        Awaits nothing but extenders: where none is asked, this ends at once.
        """
        if not self._engine.cluster.node_count:
            return NO_NODES_AVAILABLE
        self.limit.begin()
        try:
            if self._extenders.are_interested(pod):
                return await self._attempt_with_extenders(pod)
            decision = self.decide(pod)
            if not len(decision.feasible):
                return await self._post_filter(decision)
            return self._place(decision, decision.question.nodes.view.name_at(decision.choose()))
        except (CycleError, QuantityError, ExtenderError) as error:
            return Failure.of(error)

    async def _attempt_with_extenders(self, pod: Pod) -> Outcome:
        if self._sampling is not None:
            self._sampling.order.begin_attempt()
        engine, extenders, limit = self._engine, self._extenders, self.limit
        found = await ExtendedSearch(engine, extenders, self._sampling, self._metrics, limit, pod).run()
        if found.node_name:
            return self._place(found.decision, found.node_name)
        return await self._post_filter(found.decision, {EXTENDER} if found.has_removed else ())

    def _explain_and_reserve(self, explain: Explain, decision: Decision, node_name: str) -> Placement:
        explain(decision, node_name)  # now, as placing the pod changes what it was decided by
        return self._reserve(decision, node_name)

    def _reserve(self, decision: Decision, node_name: str) -> Placement:
        placement = self._engine.place(decision.question.pod, node_name, decision)
        self._engine.permit(placement)
        return placement

    def decide(self, pod: Pod) -> Decision:
        """Decide about the nodes that are to be looked at: if the nominated one is feasible, about no other.

        Raises CycleError, QuantityError.
        """
        engine, sampling, deadline = self._engine, self._sampling, self.limit.deadline
        if sampling is not None:
            sampling.order.begin_attempt()
        nominated = pod.status.nominated_node_name
        if nominated and not engine.cluster.nodes.is_node(nominated):
            nominated = ""
        if nominated:
            try:
                nodes = engine.nodes.named_once([nominated])
                decision = self._decide(Question(pod, nodes, deadline, refuses_unsupported=True, is_nominated=True))
            except OutOfTimeError:
                raise  # nor is there time for other nodes
            except CycleError as error:
                extra = {"pod": pod_name(pod), "node": nominated, "error": str(error)}
                log.warning("cannot evaluate the nominated node", extra=extra)
                nominated = ""  # it has no status
            else:
                if len(decision.feasible):
                    return decision
        sample_nodes = None if sampling is None else partial(sampling.narrow, judged=nominated)
        nodes = engine.nodes.all()
        return self._decide(Question(pod, nodes, deadline, refuses_unsupported=True, sample_nodes=sample_nodes))

    def _decide(self, question: Question) -> Decision:
        decision = self._engine.decide(question)
        self._metrics.judged(decision)
        return decision

    async def _post_filter(self, decision: Decision, also_blamed: Collection[str] = ()) -> Preemption | Failure:
        """Run PostFilter, and return what follows. `also_blamed` rejected the pod besides the plugins that did."""
        engine, pod = self._engine, decision.question.pod
        if decision.is_final:
            return Failure.unfit(self._fit_error(decision, (NOT_JUDGED,)), nomination="")
        if not decision.profile.post_filter:
            nomination = "" if engine.cluster.rules.failure_takes_nomination_back else None
            return Failure.unfit(self._fit_error(decision, also_blamed), nomination)
        try:
            result = engine.post_filter(decision.question, decision)
        except OutOfTimeError as error:
            # The next attempt would take as long: the pod waits for events, as after an error of a PostFilter plugin.
            result = PostFilterResult(Status(Code.ERROR, (f"preemption: {error}",)))
        finally:
            self._metrics.tried_victims(decision)
        fit_error, plugin = self._fit_error(decision, also_blamed), result.status.plugin
        if result.status.code == Code.SUCCESS and self._extenders.may_preempt(pod):
            candidates = list(result.candidates)
            if candidates:
                randrange = decision.profile.random.randrange
                with self.limit.left_out():
                    result = await agreed_preemption(self._extenders, engine.cluster, pod, candidates, randrange)
        fit_error = msgspec.structs.replace(fit_error, post_filter=result.status.message)
        if result.status.code == Code.SUCCESS and result.victims:
            return self._preemption(fit_error, plugin, result)
        if result.status.code == Code.SUCCESS:
            return Failure.unfit(fit_error, nomination=result.node_name)
        return Failure.unfit(fit_error, nomination="" if result.clears_nomination else None)

    def _fit_error(self, decision: Decision, also_blamed: Collection[str]) -> FitError:
        cluster = self._engine.cluster
        counts_left_out = cluster.rules.left_out_nodes_counted
        return fit_error_of(decision, cluster.node_count, also_blamed, counts_left_out=counts_left_out)

    def _preemption(self, error: FitError, plugin: str, result: PostFilterResult) -> Preemption:
        victims = [victim_in(self._engine.cluster, slot) for slot in result.victims]
        failure = Failure.unfit(error, nomination=result.node_name)
        return Preemption(result.node_name, plugin, victims, failure, error)

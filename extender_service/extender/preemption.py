"""Preemption by the service itself (--preemption=service): PostFilter runs when a filter call finds no node.

The filter call answers at once. Then, in the background, the pod is nominated, its victims are evicted, and pods of
lower priority lose their nominations for the node. The end of the victims wakes the pod in kube-scheduler's queue, and
kube-scheduler asks about the nominated node first.

                         ┌─ nominated ─▶ victims evicted ─▶ victims gone ─┐
    filter refuses ─▶ pending                                             ├─▶ asked again: placed, or preempts again
                         └─ a write failed: kube-scheduler asks again ────┘

The nomination is written first: without it, a service that restarts in between would choose more victims. As long as
victims are about to go, the pod gets no others, whatever its status says: kube-scheduler takes a nomination back after
an error, and from 1.35 on after each failure unless it has a PostFilter plugin (schedulingAlgorithm in
schedule_one.go). It is not written again then: after each write, kube-scheduler would ask, and take it back again.
"""

import asyncio
import logging
import math
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from msgspec import structs

from extender_service.extender.refused_pods import REMEMBERED_SECONDS, RefusedPods
from extender_service.extender.watch_lag import WatchLag
from extender_service.framework.guard import CycleError
from extender_service.framework.interface import PostFilterResult
from extender_service.framework.profile import Profile
from extender_service.framework.status import Code
from extender_service.kube.api_errors import ApiError, KubeError
from extender_service.kube.parsing.quantities import QuantityError
from extender_service.kube.types.core import ObjectMeta, Pod, PodStatus, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.observability.preemption_metrics import PreemptionMetrics
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.eviction import Evictions, Preemptor, Victim, victim_in
from extender_service.scheduling.pod_patches import nomination_patch
from extender_service.scheduling.pod_writes import PodWrites, cancelled
from extender_service.scheduling.question import Question
from extender_service.seams import Clock

log = logging.getLogger(__name__)

# After a failure, a pod preempts no others for so long: podInitialBackoffSeconds.
_PAUSE_SECONDS = 1.0
# With fewer pending preemptions, it is not worthwhile to look for those of placed pods.
_FEW_PENDING = 64


class _GoneError(CycleError):
    """The pod that was to preempt others is gone, as happens."""


class PreemptorApi(Protocol):
    """Where the pods are read that are to preempt others."""

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod as it is now, None if there is none. Raises KubeError."""


class PreemptionWork(NamedTuple):
    """What carries preemption out, and counts it."""

    api: PreemptorApi
    writes: PodWrites
    evictions: Evictions
    metrics: PreemptionMetrics


@dataclass
class PendingPreemption:
    """A pod nominated for a node, and its victims; `task` ends when the API server has answered, at `answered_at`.

    `is_lost`: a pod of higher priority has taken the nomination, while `task` was under way.
    """

    node_name: str
    victims: Sequence[Victim]
    task: asyncio.Task[None]
    answered_at: float = math.inf
    is_lost: bool = False


class OwnPreemption:
    """Preempts for pods that fit nowhere. A preemption is pending, by the pod's UID, until the pod is bound or gone."""

    def __init__(
        self, engine: Engine, lag: WatchLag, refused: RefusedPods, work: PreemptionWork, *, clock: Clock
    ) -> None:
        self._engine = engine
        self._cluster = engine.cluster
        self._lag = lag
        self._refused = refused
        self._clock = clock
        self._api, self._writes, self._evictions, self._metrics = work
        self._pending: dict[str, PendingPreemption] = {}
        self._many_pending = _FEW_PENDING
        self._failed_at: dict[str, float] = {}
        self._taking_back: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def as_nominated(self, pod: Pod) -> Pod:
        """Return the pod as it will be once it is nominated, if its preemption is pending."""
        pending = self._pending.get(pod_uid(pod))
        if pending is None or pod.status.nominated_node_name == pending.node_name:
            return pod
        return structs.replace(pod, status=structs.replace(pod.status, nominated_node_name=pending.node_name))

    def preempt(self, decision: Decision, asked_as: Pod) -> None:
        """Run PostFilter for a pod that was refused on all nodes of a call, and begin to evict the victims found.

        `asked_as` is the pod as the caller sent it, without a nomination that it may not know of yet. If another call
        follows about more nodes, or the decision is final, nothing happens.
        """
        pod = decision.question.pod
        if decision.is_final or not decision.profile.post_filter or self._is_about_nominated_node(asked_as, decision):
            return
        uid = pod_uid(pod)
        pending = self._pending.get(uid)
        if pending is not None and not pending.task.done():
            return
        if self._has_just_failed(uid) or self._awaits_victims(pending, pod, decision) or self._is_behind(pod, decision):
            log.info("a pod preempts no others while room may be coming", extra={"pod": pod_name(pod)})
            self._refused.note_withheld(pod)
        elif self._is_ours(pod, uid):
            self._run_post_filter(pod, uid, decision)

    def give_up(self) -> None:
        """Cancel what is under way, and forget what is pending: another pair decides about these pods."""
        for task in self._tasks:
            task.cancel()
        for uid in list(self._pending):
            self._forget(uid)

    async def close(self, grace_seconds: float) -> None:
        """Wait until what is under way has ended; after so many seconds, cancel it."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace_seconds)
        await cancelled([*self._tasks])
        await self._writes.abandon()

    def _is_about_nominated_node(self, asked_as: Pod, decision: Decision) -> bool:
        """Return whether kube-scheduler asks about the nominated node alone, before it asks about all nodes."""
        names = decision.question.nodes.names
        return len(names) == 1 < self._cluster.node_count and names[0] == asked_as.status.nominated_node_name

    def _is_ours(self, pod: Pod, uid: str) -> bool:
        """Return whether the watch shows the pod as pending, with the caller's priority, and a profile is for it."""
        slot = self._cluster.pending_slot(uid)
        if slot is None or not self._engine.profiles.has(pod.spec.scheduler_name):
            return False
        return int(self._cluster.pods.priority[slot]) == pod.spec.priority

    def _has_just_failed(self, uid: str) -> bool:
        """Return whether preemption for the pod failed a moment ago. Each nomination may have kube-scheduler ask again
        at once."""
        return self._clock() < self._failed_at.get(uid, -math.inf) + _PAUSE_SECONDS

    def _awaits_victims(self, pending: PendingPreemption | None, pod: Pod, decision: Decision) -> bool:
        """Return whether victims are about to go from their node, as far as the watch has shown."""
        if pending is None or _is_hopeless(pod, decision):
            return False
        # The watch may still have to show that they are being deleted. One that stays is no reason to wait longer: a
        # backup of etcd may have brought it back.
        are_all_marked = self._clock() > pending.answered_at + REMEMBERED_SECONDS
        slots = (self._cluster.slot_on(victim.uid, pending.node_name) for victim in pending.victims)
        return any(
            slot is not None and (not are_all_marked or bool(self._cluster.pods.terminating[slot])) for slot in slots
        )

    def _is_behind(self, pod: Pod, decision: Decision) -> bool:
        """Return whether our watch is behind what the caller has seen, so that other victims might be chosen."""
        uid = pod_uid(pod)
        if decision.question.nodes.unknown or self._refused.awaits_nodes(self._refused.get(uid)):
            return True
        if self._cluster.pod(uid) is None:
            return not self._lag.has_ended(pod)
        return self._lag.is_newer(pod) or (self._lag.is_room_coming(pod) and not _is_hopeless(pod, decision))

    def _run_post_filter(self, pod: Pod, uid: str, decision: Decision) -> None:
        try:
            result = self._post_filter(pod, decision)
        except (CycleError, QuantityError) as error:
            log.error("preemption failed", extra={"pod": pod_name(pod), "error": str(error)})  # noqa: TRY400
            return
        if result.status.code == Code.SUCCESS and result.node_name:
            self._begin(pod, uid, decision.profile, result)
        elif result.clears_nomination and pod.status.nominated_node_name and not self._is_written_about(uid):
            self._taking_back.add(uid)
            self._start(self._take_back(pod, uid))

    def _is_written_about(self, uid: str) -> bool:
        return uid in self._taking_back or uid in self._writes

    def _post_filter(self, pod: Pod, decision: Decision) -> PostFilterResult:
        question = decision.question
        if not question.nodes.by_name:
            # Victims are chosen on nodes of the cluster: those that the caller sent are in a table of their own.
            nodes = self._engine.nodes.named_once(question.nodes.names)
            question = Question(pod, nodes, question.deadline, refuses_unsupported=question.refuses_unsupported)
            decision = self._engine.decide_without_reuse(question)
        try:
            return self._engine.post_filter(question, decision)
        finally:
            if decision.state.tried_preemption:
                self._metrics.tried()

    def _begin(self, pod: Pod, uid: str, profile: Profile, result: PostFilterResult) -> None:
        """Begin a preemption: the pod counts as nominated from now on."""
        slot = self._cluster.pending_slot(uid)
        assert slot is not None, "only a pod that the watch shows as pending may preempt"
        node_name = result.node_name
        victims = [victim_in(self._cluster, slot) for slot in result.victims]
        if not victims and pod.status.nominated_node_name == node_name:
            return
        log.info("makes room for a pod", extra={"pod": pod_name(pod), "node": node_name, "victims": len(victims)})
        self._forget_placed()
        self._cluster.nominations.nominate_ahead(pod, uid, slot, node_name)
        preemptor = Preemptor(pod, profile, node_name, result.status.plugin)
        task = self._start(self._carry_out(preemptor, uid, victims))
        self._pending[uid] = PendingPreemption(node_name, victims, task)

    async def _carry_out(self, preemptor: Preemptor, uid: str, chosen: Sequence[Victim]) -> None:
        """Nominate the pod, then evict its victims, then take back other nominations. If that fails, kube-scheduler is
        to ask again: no event might wake the pod.

        No other pod loses its place or its nomination before the API server has confirmed this one.
        """
        pod, node_name = preemptor.pod, preemptor.node_name
        ended = self._metrics.preempting()
        try:
            await self._require_as_asked(pod)
            victims = self._without_dropped(chosen, node_name)
            self._note_victims(uid, victims)
            lower = self._lower_nominated(pod, uid, node_name)
            for other in lower:
                self._lose_nomination(pod_uid(other))
            if victims or pod.status.nominated_node_name != node_name:
                await self._nominate(pod, node_name)
            await self._evictions.evict(
                preemptor,
                self._evictions.to_evict(victims),
                lambda: [other for other in lower if self._has_no_other_nomination(other)],
            )
            ended("success")
            self._note_answer(uid)
            if not victims:
                self._refused.note_withheld(pod)  # no victim's end wakes it
        except Exception as error:
            ended("error")
            self._note_failure(uid)
            if isinstance(error, _GoneError) or (isinstance(error, ApiError) and error.says_gone):
                return
            extra = {"pod": pod_name(pod), "node": node_name}
            if isinstance(error, CycleError):
                log.warning("a pod preempts no others", extra={**extra, "error": str(error)})
            else:
                log.exception("preemption failed", extra=extra)
            self._refused.note_withheld(pod)

    def _without_dropped(self, victims: Sequence[Victim], node_name: str) -> list[Victim]:
        """Drop the places of the victims that are only expected on their node, and return the others that are there.

        An expected pod needs no deletion, as no binding has been asked for. kube-scheduler does not know that its place
        is dropped: should it ask for that binding, BindVerb checks whether the pod fits.
        """
        left = []
        for victim in victims:
            placement = self._cluster.placements.get(victim.uid)
            if self._cluster.pending_slot(victim.uid) is None:
                left.append(victim)
            elif placement is None or placement.node_name != node_name:
                continue  # its place has ended since it was chosen
            elif placement.assumed:
                left.append(victim)
            else:
                self._cluster.drop_placement(victim.uid)
        return left

    async def _require_as_asked(self, pod: Pod) -> None:
        """Raise CycleError unless the API server has this pod, pending and just as the caller has sent it: a caller may
        not choose victims by a pod that it has made up. Raises KubeError if the pod cannot be read."""
        known = await self._api.get_pod(pod.metadata.namespace, pod.metadata.name)
        if known is None or pod_uid(known) != pod_uid(pod) or known.metadata.deletion_timestamp:
            raise _GoneError(f"pod {pod_name(pod)} is gone")
        if known.spec != pod.spec or known.metadata.labels != pod.metadata.labels:
            raise CycleError(f"pod {pod_name(pod)} is not as the caller has sent it")

    async def _take_back(self, pod: Pod, uid: str) -> None:
        """Take back a nomination that helps no more."""
        try:
            await self._require_as_asked(pod)
            self._forget(uid)
            await self._nominate(pod, "")
        except (KubeError, CycleError) as error:
            log.info("a nomination stands", extra={"pod": pod_name(pod), "error": str(error)})
        finally:
            self._taking_back.discard(uid)

    async def _nominate(self, pod: Pod, node_name: str) -> None:
        """Write a pod's nominated node, empty for none. Raises KubeError."""
        await self._writes.patch_status(pod, nomination_patch(pod, node_name))

    def _lower_nominated(self, pod: Pod, uid: str, node_name: str) -> list[Pod]:
        """Return the pods of lower priority that are nominated for a node: they may not fit there any more."""
        names = self._engine.profiles.names
        return [
            self._nominated(each.slot, node_name)
            for each in self._cluster.nominations.on_node(node_name)
            if each.priority < pod.spec.priority and each.uid != uid and each.scheduler_name in names
        ]

    def _has_no_other_nomination(self, other: Pod) -> bool:
        """Return whether a pod that lost its nomination has got no other since, for this or another node, and waits."""
        uid, lost = pod_uid(other), other.status.nominated_node_name
        slot, pending = self._cluster.pending_slot(uid), self._pending.get(uid)
        if slot is None or (pending is not None and not pending.is_lost):
            return False
        return self._cluster.pods[slot].nominated_node_name in ("", lost)

    def _nominated(self, slot: int, node_name: str) -> Pod:
        facts = self._cluster.pods[slot]
        metadata = ObjectMeta(namespace=facts.namespace, name=facts.name, uid=facts.uid)
        return Pod(metadata=metadata, status=PodStatus(nominated_node_name=node_name))

    def _forget_placed(self) -> None:
        """Forget the preemptions of pods that are on a node or gone, so that hardly more are kept than pods wait.

        All are looked at only when they have doubled: in a burst, each pod that begins would look at all the others.
        """
        if len(self._pending) < self._many_pending:
            return
        for uid in [uid for uid in self._pending if self._cluster.pending_slot(uid) is None]:
            self._forget(uid)
        self._many_pending = max(2 * len(self._pending), _FEW_PENDING)

    def _lose_nomination(self, uid: str) -> None:
        """Take back a nomination; as long as victims are being evicted, the pod still may choose no others."""
        pending = self._pending.get(uid)
        if pending is None or pending.task.done():
            self._forget(uid)
        else:
            pending.is_lost = True
            self._withdraw(uid)

    def _forget(self, uid: str) -> None:
        """Forget the preemption of a pod: of its nomination, what the watch shows counts."""
        if self._pending.pop(uid, None) is not None:
            self._withdraw(uid)

    def _withdraw(self, uid: str) -> None:
        known = self._cluster.pod(uid)
        self._cluster.nominations.withdraw(uid, "" if known is None else known.nominated_node_name)

    def _note_victims(self, uid: str, victims: Sequence[Victim]) -> None:
        """Note the victims that the current task is to evict."""
        if victims:
            self._metrics.preempted(len(victims))
        pending = self._pending_of_task(uid)
        if pending is not None:
            pending.victims = victims

    def _note_answer(self, uid: str) -> None:
        """Note when the API server had answered about the preemption that the current task carries out."""
        pending = self._pending_of_task(uid)
        if pending is not None:
            pending.answered_at = self._clock()

    def _note_failure(self, uid: str) -> None:
        """Forget the preemption that the current task carries out; there may be a later one of the pod."""
        now = self._clock()
        self._failed_at = {other: at for other, at in self._failed_at.items() if now < at + _PAUSE_SECONDS}
        self._failed_at[uid] = now
        if self._pending_of_task(uid) is not None:
            self._forget(uid)

    def _pending_of_task(self, uid: str) -> PendingPreemption | None:
        """Return the preemption of a pod if the current task carries it out."""
        pending = self._pending.get(uid)
        return pending if pending is not None and pending.task is asyncio.current_task() else None

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _is_hopeless(pod: Pod, decision: Decision) -> bool:
    """Return whether no eviction on the pod's nominated node helps: then the pod may preempt elsewhere."""
    verdicts = decision.verdicts
    position = verdicts.view.position_of(pod.status.nominated_node_name)
    return position >= 0 and bool(verdicts.rejected_with(Code.UNSCHEDULABLE_AND_UNRESOLVABLE)[position])

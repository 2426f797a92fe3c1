"""What follows an attempt that found pods to preempt: the pod is nominated at once, and its victims are evicted.

           ┌─▶ held ──▶ victims evicted ──▶ failure handled, released
preempts ──┤   (until 1.32, or without DefaultPreemption at PreEnqueue; a pod of a higher priority that preempts on the
           │   node meanwhile ends the nomination)
           └─▶ failure handled ──▶ victims evicted ──▶ tried at once if no event will wake it, or a second later
               if that failed (from 1.33 on; PreEnqueue keeps it out of the queue meanwhile)
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final

import msgspec

from extender_service.framework.profile import Profile
from extender_service.framework.running_preemptions import RunningPreemption, RunningPreemptions
from extender_service.kube.api_errors import KubeError
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.writing.event_recorder import Occurrence
from extender_service.plugins.default_preemption import DefaultPreemption
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.attempt import Preemption
from extender_service.scheduler.decided_nominations import nominated
from extender_service.scheduler.failure import Failure, words
from extender_service.scheduler.failure_handler import FailureHandler
from extender_service.scheduler.failure_reports import FailureReports
from extender_service.scheduler.metrics.attempts import AttemptMetrics
from extender_service.scheduler.nominated_pods import report_unnominated
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.eviction import Evictions, Preemptor, Victim
from extender_service.scheduling.pod_writes import PodWrites
from extender_service.seams import WallClock

log = logging.getLogger(__name__)

# Where each deletion is refused within milliseconds, a pod would be tried fifty times a second otherwise.
_REST_SECONDS: Final = 1.0


class Preempting:
    """Carries out what attempts decided about preemption. `start` runs work in the background.

    For `held_back_seconds` see Evictions.
    """

    def __init__(
        self,
        engine: Engine,
        queue: SchedulingQueue,
        pending: PodLister,
        preemptions: RunningPreemptions,
        writes: PodWrites,
        reports: FailureReports,
        failures: FailureHandler,
        record: Callable[[Occurrence], None],
        start: Callable[[Coroutine[Any, Any, None]], None],
        wall_clock: WallClock,
        metrics: AttemptMetrics,
        held_back_seconds: Callable[[], float],
    ) -> None:
        self._rules = engine.cluster.rules
        self._queue = queue
        self._pending = pending
        self._reports = reports
        self._failures = failures
        self._start = start
        self._metrics = metrics
        # Pods whose victims are evicted before their nomination is written, by UID.
        self._held: dict[str, Pod] = {}
        self._evictions = Evictions(
            engine,
            preemptions,
            writes,
            record,
            wall_clock,
            held_back_seconds,
            on_taken_back=self._note_taken_back,
        )

    def begin(
        self, info: QueuedPodInfo, pod: Pod, profile: Profile, preemption: Preemption, popped_at_cycle: int
    ) -> None:
        """Nominate a pod for its node, and evict the victims in the background.

        `popped_at_cycle` is the queue's when the pod was popped: a victim's end since then is worth another attempt,
        though other pods were popped meanwhile.
        """
        if self._is_in_background(profile):
            self._queue.nominator.add(pod, preemption.node_name)
            self._fail_and_evict(info, pod, profile, preemption)
        else:
            before = {each.uid for each in self._queue.nominator.on_node(preemption.node_name)}
            self._queue.hold(pod, preemption.node_name)
            self._held[pod_uid(pod)] = pod
            self._start(self._evict_while_held(info, pod, profile, preemption, popped_at_cycle, before))

    def _is_in_background(self, profile: Profile) -> bool:
        """Return whether a pod may be queued while its victims are deleted: DefaultPreemption keeps it waiting."""
        keepers = (plugin.name for plugin in profile.pre_enqueue)
        return self._rules.preemption_in_background and DefaultPreemption.name in keepers

    async def _evict_while_held(
        self,
        info: QueuedPodInfo,
        pod: Pod,
        profile: Profile,
        preemption: Preemption,
        popped_at_cycle: int,
        before: Collection[str],
    ) -> None:
        """Delete the victims. Until that is answered, the pod is in flight and held, so that it preempts no more.

        `before` are the UIDs of the pods that were nominated for the node before this one.
        """
        node_name, failure = preemption.node_name, preemption.failure
        preemptor = Preemptor(pod, profile, node_name, preemption.plugin)
        victims = self._evictions.to_evict(preemption.victims)
        counts_first = self._rules.victims_counted_first
        if counts_first:
            self._metrics.preempted(len(preemption.victims))
        try:
            await self._evictions.evict(preemptor, victims, lambda: self._give_way(pod, node_name, before))
        except Exception as error:
            log.exception("preemption failed", extra={"pod": pod_name(pod), "node": node_name})
            is_nominated = self._queue.nominator.node_of.get(pod_uid(pod)) == node_name
            self._queue.nominator.remove(pod)
            why = words(error) if isinstance(error, KubeError) else f"{type(error).__name__}: {error}"
            failed = msgspec.structs.replace(preemption.fit_error, post_filter=f"preemption: {why}")
            failure = Failure.unfit(failed, nomination=None if is_nominated else "")
        else:
            if not counts_first:
                self._metrics.preempted(len(preemption.victims))
        await self._failures.wait_for_looks(info, failure)
        uid = pod_uid(pod)
        self._held.pop(uid, None)
        if failure.nomination and self._queue.nominator.node_of.get(uid) != node_name:
            failure = msgspec.structs.replace(failure, nomination="")
        self._failures.handle(info, pod, failure, popped_at_cycle)
        latest = self._pending.get(info.key)
        if latest is not None and pod_uid(latest) == pod_uid(pod):
            self._queue.release(pod, self._pending.nominations.as_decided(latest))
        else:
            self._queue.release(pod, None)

    def _fail_and_evict(self, info: QueuedPodInfo, pod: Pod, profile: Profile, preemption: Preemption) -> None:
        """Fail the attempt at once, and delete the victims meanwhile."""
        victims = self._evictions.to_evict(preemption.victims)
        rules = self._rules
        if victims or rules.idle_preemptions_counted or not rules.idle_preemptions_uncounted:
            self._metrics.preempted(len(preemption.victims))
        if victims:
            running = self._evictions.begin(pod)
            preemptor = Preemptor(pod, profile, preemption.node_name, preemption.plugin)
            self._start(self._evict_in_background(running, preemptor, victims))
        self._failures.handle(info, pod, preemption.failure)

    async def _evict_in_background(
        self, running: RunningPreemption, preemptor: Preemptor, victims: Sequence[Victim]
    ) -> None:
        """Evict the victims for a pod. If that fails, the pod is tried again a second later: no event might wake it.

        kube-scheduler tries it at once, however often.
        """
        pod, node_name = preemptor.pod, preemptor.node_name
        lower, ended = self._give_way(pod, node_name), self._metrics.preempting()
        try:
            is_due = await self._evictions.evict_in_background(running, preemptor, victims, lower)
        except Exception:
            log.exception("preemption failed", extra={"pod": pod_name(pod), "node": node_name})
            ended("error")
            asyncio.get_running_loop().call_later(_REST_SECONDS, self._queue.activate, [pod])
            return
        ended("success")
        if is_due:
            self._queue.activate([pod])

    def _give_way(self, pod: Pod, node_name: str, before: Collection[str] | None = None) -> list[Pod]:
        """End what nominates pods of lower priority for a node: they may not fit there any more.

        Of a held pod, those that are not written yet end here. Returns the other pods, whose nominations are to be
        taken back. `before` are the UIDs of those that were nominated before this pod, if others are to keep theirs.
        """
        lower = []
        for other in self._queue.nominated_pods_for_node(node_name):
            if before is not None and pod_uid(other) not in before:
                continue  # its preemption has counted with this pod
            held = self._held.get(pod_uid(other))
            if (held or other).spec.priority >= pod.spec.priority:
                continue
            if held is None:
                lower.append(other)
            else:
                self._queue.nominator.remove(held)
                report_unnominated(self._queue, self._rules, nominated(held, node_name))
        return lower

    def _note_taken_back(self, pod: Pod) -> None:
        """Let no report nominate a pod whose nomination is about to be taken back."""
        self._reports.note_taken_back(pod)
        shown = self._pending.get(pod_name(pod))
        if shown is not None and not shown.status.nominated_node_name:
            self._queue.update(pod, shown)  # the watch may never show the nomination, nor its end

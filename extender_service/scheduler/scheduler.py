"""The scheduler's loop: pop a pod, find it a node, bind it in the background, turn to the next (schedule_one.go).

                            ┌──────────── fails: condition, event, back to the queue ◀───────────┐
                            │                     ▲                                              │
    queue ──pop──▶ attempt ─┤                     │ victims' deletions are answered              │
                            ├─ preempts: nominated at once ──▶ evict victims (background)        │
                            └─ placed: reserved, permitted ──▶ bind (background) ────────────────┤
                                                                                                 ▼
                                                                                   bound: event, done
One pod is attempted at a time, in the queue's order; whatever waits for the API server does so in the background.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from extender_service.cluster.state.placements import Placement
from extender_service.framework.events import reported_events
from extender_service.framework.guard import CycleError
from extender_service.framework.profile import Profile
from extender_service.framework.running_preemptions import RunningPreemption, RunningPreemptions
from extender_service.kube.api_errors import KubeError
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.writing.event_recorder import Occurrence, cut_note
from extender_service.observability.logs import log_fields
from extender_service.plugins.default_preemption import DefaultPreemption
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.assigned_pods import pod_on
from extender_service.scheduler.attempt import Attempts, Outcome, Preemption
from extender_service.scheduler.attempt_metrics import UNCOUNTED, AttemptMetrics
from extender_service.scheduler.failure import SCHEDULER_ERROR, UNSCHEDULABLE, Failure, words
from extender_service.scheduler.failure_reports import FailureReports
from extender_service.scheduler.look_budget import LookBudget
from extender_service.scheduler.nominated_pods import report_unnominated
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduling import pod_events
from extender_service.scheduling.bindings import BindError
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.eviction import Evictions, Victim
from extender_service.scheduling.pod_events import pod_reference
from extender_service.scheduling.pod_patches import nomination_patch
from extender_service.scheduling.pod_writes import PodApi, PodWrites, cancelled
from extender_service.scheduling.write_turns import not_held_back
from extender_service.seams import Sleep, WallClock

log = logging.getLogger(__name__)

# How often the queue is looked through for pods that waited too long.
FLUSH_LEFTOVER_SECONDS: Final = 30.0

Record = Callable[[Occurrence], None]


class Scheduler:
    """Schedules the pods of a queue. `held_back_seconds` returns how long the client's rate limit would hold back a
    request."""

    def __init__(
        self,
        attempts: Attempts,
        engine: Engine,
        queue: SchedulingQueue,
        pending: PodLister,
        api: PodApi,
        record: Record,
        preemptions: RunningPreemptions,
        *,
        sleep: Sleep,
        wall_clock: WallClock,
        metrics: AttemptMetrics = UNCOUNTED,
        held_back_seconds: Callable[[], float] = not_held_back,
    ) -> None:
        self._attempts = attempts
        self._engine = engine
        self._rules = engine.cluster.rules
        self._room_freed = reported_events(engine.cluster.rules).assigned_pod_delete
        self._queue = queue
        self._pending = pending
        self._record = record
        self._sleep = sleep
        self._wall_clock = wall_clock
        self._metrics = metrics
        self._writes = PodWrites(api, sleep, self._rules)
        self._reports = FailureReports(
            self._writes,
            pending,
            wall_clock,
            held_back_seconds,
            with_generation=self._rules.conditions_have_generation,
            on_unwritten=partial(report_unnominated, queue, self._rules),
        )
        self._evictions = Evictions(
            engine,
            preemptions,
            self._writes,
            record,
            wall_clock,
            held_back_seconds,
            on_taken_back=self._note_taken_back,
        )
        self._background: set[asyncio.Task[None]] = set()
        self._bindings: set[asyncio.Task[None]] = set()
        self._looks = LookBudget()
        self._is_abandoned = False
        engine.binder.confirmations.on_lost = self._queue_lost

    async def run(self) -> None:
        """Schedule pods until the queue is closed."""
        async with asyncio.TaskGroup() as tasks:
            flushes = [
                tasks.create_task(
                    self._flush(lambda: self._queue.seconds_to_flush, self._queue.flush_backoff_completed)
                ),
                tasks.create_task(
                    self._flush(lambda: FLUSH_LEFTOVER_SECONDS, self._queue.flush_unschedulable_leftover)
                ),
            ]
            while await self._queue.wait():
                info = self._queue.pop()
                if info is not None:
                    await self.schedule_one(info)
                # The watch, bindings and the lease have their turn between two pods.
                await self._sleep(self._attempts.limit.rest_seconds())
            for task in flushes:
                task.cancel()

    @property
    def unfinished_count(self) -> int:
        """How many bindings, preemptions and writes have not ended, in the background of the loop."""
        return len(self._bindings) + len(self._background) + len(self._reports) + len(self._writes)

    async def close(self) -> None:
        """Wait until bindings, deletions of victims and writes under way have ended."""
        while under_way := self._bindings | self._background:
            await asyncio.wait(under_way)
        await self._reports.close()
        await self._writes.close()

    async def finish_writes(self) -> None:
        """Wait until all writes that have begun have ended; a pod that waits before its binding goes on waiting."""
        self._reports.forget_all()
        await self._engine.binder.finish_bindings()
        await self._writes.close()

    async def abandon(self) -> None:
        """Cancel all that is under way, as the process ends: the next leader decides about these pods."""
        self._is_abandoned = True
        await cancelled([*self._background])
        await self._reports.abandon()
        await self._writes.abandon()
        await self._engine.binder.close(0)

    async def schedule_one(self, info: QueuedPodInfo) -> None:
        """Attempt to schedule a pod that was popped."""
        pod = info.pod
        profile = self._engine.profiles.find(pod.spec.scheduler_name)
        if profile is None or self._skips(pod):
            self._queue.done(pod_uid(pod))
            return
        popped_at_cycle = self._queue.scheduling_cycle
        self._metrics.begun(info)
        if self._attempts.asks_extenders(pod):
            outcome = await self._attempt_until_gone(info.key, pod)
            if outcome is None:
                log.info("a pod went while extenders were asked about it", extra={"pod": info.key})
                self._metrics.abandoned(info)
                self._queue.done(pod_uid(pod))
                return
        else:
            outcome = await self._attempt(pod)
        self._metrics.decided(info)
        match outcome:
            case Placement() as placement:
                self._queue.nominator.remove(pod)
                self._reports.forget(pod_uid(pod))
                if self._rules.nominated_before_waits or pod_uid(pod) in self._writes:
                    self._start(self._bind_after_writes(info, placement))
                else:
                    self._bind(info, placement)
            case Preemption() as preemption:
                if self._preempts_in_background(profile):
                    self._queue.nominator.add(pod, preemption.node_name)
                    self._preempt_in_background(info, pod, profile, preemption)
                else:
                    self._queue.hold(pod, preemption.node_name)
                    self._start(self._evict_while_held(info, pod, profile, preemption, popped_at_cycle))
            case Failure() as failure:
                self._fail(info, pod, failure)

    async def _attempt_until_gone(self, key: str, pod: Pod) -> Outcome | None:
        """Attempt a pod that extenders are asked about, which may take long; None once the pod is gone, and at once."""
        attempt = asyncio.create_task(self._attempt(pod))
        gone = asyncio.Event()

        def end() -> None:
            gone.set()
            attempt.cancel()

        with self._pending.at_end_of(key, end):
            try:
                outcome = await attempt
            except asyncio.CancelledError:
                loop_task = asyncio.current_task()
                is_ending = loop_task is not None and loop_task.cancelling() > 0
                if is_ending or not gone.is_set() or not attempt.cancelled():
                    raise
                return None
        if gone.is_set():  # it went in the moment in which the attempt ended
            if isinstance(outcome, Placement):
                self._engine.undo(outcome, "the pod is gone")
            return None
        return outcome

    async def _attempt(self, pod: Pod) -> Outcome:
        try:
            return await self._attempts.attempt(pod)
        except Exception as error:
            # A bug that one pod meets must not end the scheduling of all others.
            log.exception("an attempt failed unexpectedly", extra={"pod": pod_name(pod)})
            return Failure(f"{type(error).__name__}: {error}", SCHEDULER_ERROR)

    def _skips(self, pod: Pod) -> bool:
        """Return whether a pod needs no attempt: it is being deleted, or is being bound already (skipPodSchedule)."""
        if pod.metadata.deletion_timestamp:
            self._record(pod_events.skipped(pod_reference(pod), controller=pod.spec.scheduler_name))
            return True
        return self._engine.cluster.placements.get(pod_uid(pod)) is not None

    async def _bind_after_writes(self, info: QueuedPodInfo, placement: Placement) -> None:
        """Bind a pod once writes about it that must come first have ended."""
        await self._writes.settled(placement.uid)  # a failure that is written late would hide the binding
        try:
            if self._rules.nominated_before_waits:
                await self._expect(placement)
        except CycleError as error:
            await self._fail_binding(info, placement, Failure.of(error))
            return
        self._bind(info, placement)

    def _bind(self, info: QueuedPodInfo, placement: Placement) -> None:
        """Bind a pod in the background, in one task: a second one around it takes longer than most of a binding."""
        binder, binding = self._engine.binder, self._engine.bind(placement)
        if binder.binding_of(placement.uid) is None:
            task = binder.start(placement.uid, placement.node_name, binding).task
        else:
            task = asyncio.create_task(binding)  # fails, as the pod is being bound
        self._bindings.add(task)
        task.add_done_callback(partial(self._end_binding, info, placement))

    def _end_binding(self, info: QueuedPodInfo, placement: Placement, task: asyncio.Task[None]) -> None:
        self._bindings.discard(task)
        if self._is_abandoned:
            return
        error: BaseException | None
        try:
            error = task.exception()
        except asyncio.CancelledError:  # by a plugin: the scheduler cancels none
            error = BindError(f"binding {info.key} to {placement.node_name}: cancelled")
        if error is None:
            self._report_bound(info, placement)
        elif isinstance(error, BindError):
            self._start(self._end_failed_binding(info, placement, error))
        else:
            raise error

    async def _end_failed_binding(self, info: QueuedPodInfo, placement: Placement, error: BindError) -> None:
        # A pod that may be bound must not be queued: it would be skipped, and then be in no queue.
        if await self._engine.binder.confirmations.until_known(placement):
            self._report_bound(info, placement)
        else:
            await self._fail_binding(info, placement, Failure.of(error))

    def _report_bound(self, info: QueuedPodInfo, placement: Placement) -> None:
        pod, node_name = placement.pod, placement.node_name
        log_fields(log, logging.INFO, "bound a pod", {"pod": info.key, "node": node_name}, at=self._wall_clock())
        self._record(pod_events.scheduled(pod_reference(pod), node_name, controller=pod.spec.scheduler_name))
        self._metrics.scheduled(info)
        self._queue.done(placement.uid)

    def _queue_lost(self, placement: Placement) -> None:
        """Let other pods have the room of a pod that was bound and is no longer. No event may say so.

        If its binding was lost, it is queued again.
        """
        pod = self._pending.get(pod_name(placement.pod))
        if not placement.is_confirmed and pod is not None and pod_uid(pod) == placement.uid:
            self._pending.forget_nomination(pod_name(pod), placement.uid)
            self._queue.add(pod)
        left = pod_on(placement.pod, placement.node_name)
        self._queue.move_all_to_active_or_backoff(self._room_freed, left, None)

    async def _expect(self, placement: Placement) -> None:
        """Nominate a pod for its node if its binding will wait, so that users and autoscalers expect it there.

        The binding goes on if that cannot be written. Raises CycleError as the engine's `will_wait`.
        """
        if self._engine.cluster.placements.get(placement.uid) is not placement:
            return  # the pod has gone meanwhile, as `bind` will find
        pod, node_name = placement.pod, placement.node_name
        if self._engine.will_wait(placement) and not self._pending.shows_nomination(pod, node_name):
            self._reports.note_nomination(pod, node_name)
            await asyncio.wait([self._writes.patch_status(pod, nomination_patch(pod, node_name))])

    async def _fail_binding(self, info: QueuedPodInfo, placement: Placement, failure: Failure) -> None:
        """Let other pods have the room that is free again, and queue the pod again (handleBindingCycleError)."""
        await self._may_come_back(info, failure)
        pod, left = placement.pod, pod_on(placement.pod, placement.node_name)
        if not failure.is_rejection:
            self._queue.move_all_to_active_or_backoff(self._room_freed, left, None)
            self._fail(info, pod, failure)
            return
        uid = placement.uid
        self._fail(info, pod, failure)
        # Only now, and without itself: the room that a rejected pod leaves does not help it.
        self._queue.move_all_to_active_or_backoff(self._room_freed, left, None, lambda other: pod_uid(other) != uid)

    async def _evict_while_held(
        self, info: QueuedPodInfo, pod: Pod, profile: Profile, preemption: Preemption, popped_at_cycle: int
    ) -> None:
        """Delete the victims. Until that is answered, the pod is in flight and held: no second attempt preempts more.

        `popped_at_cycle` is the queue's when the pod was popped: a victim's end since then is worth another attempt,
        though other pods were popped meanwhile.
        """
        node_name, failure = preemption.node_name, preemption.failure
        victims = self._evictions.to_evict(preemption.victims)
        counts_first = self._rules.victims_counted_first
        if counts_first:
            self._metrics.preempted(len(preemption.victims))
        try:
            await self._evictions.evict(profile, pod, node_name, victims, lambda: self._lower_nominated(pod, node_name))
        except Exception as error:
            log.exception("preemption failed", extra={"pod": pod_name(pod), "node": node_name})
            self._queue.nominator.remove(pod)
            why = words(error) if isinstance(error, KubeError) else f"{type(error).__name__}: {error}"
            failed = msgspec.structs.replace(preemption.fit_error, post_filter=f"preemption: {why}")
            failure = Failure.unfit(failed, nomination=None)
        else:
            if not counts_first:
                self._metrics.preempted(len(preemption.victims))
        await self._may_come_back(info, failure)
        self._fail(info, pod, failure, popped_at_cycle)
        latest = self._pending.get(info.key)
        if latest is not None and pod_uid(latest) == pod_uid(pod):
            self._queue.release(pod, self._pending.as_decided(latest))
        else:
            self._queue.release(pod, None)

    def _preempts_in_background(self, profile: Profile) -> bool:
        """Return whether a pod may be queued while its victims are deleted: DefaultPreemption keeps it waiting."""
        keepers = (plugin.name for plugin in profile.pre_enqueue)
        return self._rules.preemption_in_background and DefaultPreemption.name in keepers

    def _preempt_in_background(self, info: QueuedPodInfo, pod: Pod, profile: Profile, preemption: Preemption) -> None:
        """Fail the attempt at once, and delete the victims meanwhile."""
        victims = self._evictions.to_evict(preemption.victims)
        rules = self._rules
        if victims or rules.idle_preemptions_counted or not rules.idle_preemptions_uncounted:
            self._metrics.preempted(len(preemption.victims))
        if victims:
            running = self._evictions.begin(pod)
            self._start(self._evict_in_background(running, pod, profile, preemption.node_name, victims))
        self._fail(info, pod, preemption.failure)

    async def _evict_in_background(
        self, running: RunningPreemption, pod: Pod, profile: Profile, node_name: str, victims: Sequence[Victim]
    ) -> None:
        """Evict the victims for a pod. If that fails, the pod is tried again at once: no event might wake it."""
        lower, ended = self._lower_nominated(pod, node_name), self._metrics.preempting()
        try:
            is_due = await self._evictions.evict_in_background(running, profile, pod, node_name, victims, lower)
        except Exception:
            log.exception("preemption failed", extra={"pod": pod_name(pod), "node": node_name})
            ended("error")
            is_due = True
        else:
            ended("success")
        if is_due:
            self._queue.activate([pod])

    def _lower_nominated(self, pod: Pod, node_name: str) -> list[Pod]:
        """Return the pods of lower priority that are nominated for a node: they may not fit there any more."""
        nominated = self._queue.nominated_pods_for_node(node_name)
        return [other for other in nominated if other.spec.priority < pod.spec.priority]

    def _note_taken_back(self, pod: Pod) -> None:
        """Let no report nominate a pod whose nomination is about to be taken back."""
        self._reports.note_taken_back(pod)
        shown = self._pending.get(pod_name(pod))
        if shown is not None and not shown.status.nominated_node_name:
            self._queue.update(pod, shown)  # the watch may never show the nomination, nor its end

    async def _may_come_back(self, info: QueuedPodInfo, failure: Failure) -> None:
        """Wait while pods that come back in this turn of the event loop have many events to look at."""
        _note_rejection(info, failure)
        await self._looks.take(self._queue.count_missed(info))

    def _fail(self, info: QueuedPodInfo, pod: Pod, failure: Failure, popped_at_cycle: int | None = None) -> None:
        """Queue a pod again, and report why its attempt failed (handleSchedulingFailure).

        As in kube-scheduler, `popped_at_cycle` is the queue's current one unless it is given.
        """
        self._metrics.failed(info, is_unschedulable=failure.reason == UNSCHEDULABLE)
        _note_rejection(info, failure)
        fields = {"pod": pod_name(pod), "reason": failure.reason, "why": cut_note(failure.message)}
        log_fields(log, logging.INFO, "cannot schedule a pod", fields, at=self._wall_clock())
        latest = self._pending.get(info.key)
        if latest is None or pod_uid(latest) != pod_uid(pod):  # it is gone, perhaps made again, or on a node after all
            self._queue.done(pod_uid(pod))
            self._queue.nominator.remove(pod)
            if latest is not None and self._rules.no_failure_event_for_recreated_pod:
                return
        else:
            if failure.nomination is not None:
                self._pending.nominate(latest, failure.nomination)
            info.pod = self._pending.as_decided(latest)
            if popped_at_cycle is None:
                popped_at_cycle = self._queue.scheduling_cycle
            self._queue.add_unschedulable_if_not_present(info, popped_at_cycle)
            self._queue.nominator.add(info.pod, failure.nomination)
        self._record(
            pod_events.failed_scheduling(pod_reference(pod), failure.message, controller=pod.spec.scheduler_name)
        )
        self._reports.add(pod, failure)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _flush(self, seconds: Callable[[], float], flush: Callable[[], None]) -> None:
        """Flush a queue again and again, after as many seconds as it says by then."""
        while True:
            await self._sleep(seconds())
            flush()


def _note_rejection(info: QueuedPodInfo, failure: Failure) -> None:
    if failure.fit_error is not None:
        info.unschedulable_plugins = failure.fit_error.plugins
        info.pending_plugins = failure.fit_error.pending_plugins

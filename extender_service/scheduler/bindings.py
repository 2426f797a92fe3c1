"""The bindings of the loop's placements, in the background, and what follows each (bindingCycle in schedule_one.go).

placed ──▶ earlier writes end ──▶ binding ──▶ bound: event, done ──▶ lost: queued again
           (a nomination may         │          ▲
            be one of them)          ▼          │ yes
                                   failed ──▶ is it bound? ──no──▶ its room is free, failure handled
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from extender_service.cluster.state.placements import Placement
from extender_service.framework.events import reported_events
from extender_service.framework.guard import CycleError
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.writing.event_recorder import Occurrence
from extender_service.observability.logs import log_fields
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.assigned_pods import pod_on
from extender_service.scheduler.failure import Failure
from extender_service.scheduler.failure_handler import FailureHandler
from extender_service.scheduler.failure_reports import FailureReports
from extender_service.scheduler.metrics.attempts import AttemptMetrics
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduling import pod_events
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.pod_events import pod_reference
from extender_service.scheduling.pod_patches import nomination_patch
from extender_service.scheduling.pod_writes import PodWrites
from extender_service.scheduling.under_way import BindError
from extender_service.seams import WallClock

log = logging.getLogger(__name__)


class Bindings:
    """Binds placed pods. `under_way` are the tasks of bindings; `start` runs in the background what is around them."""

    def __init__(
        self,
        engine: Engine,
        queue: SchedulingQueue,
        pending: PodLister,
        writes: PodWrites,
        reports: FailureReports,
        failures: FailureHandler,
        record: Callable[[Occurrence], None],
        start: Callable[[Coroutine[Any, Any, None]], None],
        wall_clock: WallClock,
        metrics: AttemptMetrics,
    ) -> None:
        self.under_way: set[asyncio.Task[None]] = set()
        self._engine = engine
        self._rules = engine.cluster.rules
        self._room_freed = reported_events(engine.cluster.rules).assigned_pod_delete
        self._queue = queue
        self._pending = pending
        self._writes = writes
        self._reports = reports
        self._failures = failures
        self._record = record
        self._start = start
        self._wall_clock = wall_clock
        self._metrics = metrics
        self._is_abandoned = False
        engine.binder.confirmations.on_lost = self._queue_lost
        engine.binder.confirmations.on_returned = self._queue_returned

    def begin(self, info: QueuedPodInfo, placement: Placement) -> None:
        """Bind a pod in the background. Its place counts, so its nomination and an earlier failure count no more."""
        self._queue.nominator.remove(placement.pod)
        self._reports.forget(placement.uid)
        if self._rules.nominated_before_waits or placement.uid in self._writes:
            self._start(self._bind_after_writes(info, placement))
        else:
            self._bind(info, placement)

    def abandon(self) -> None:
        """Let nothing follow the bindings that end from now on: the next leader decides about these pods."""
        self._is_abandoned = True

    async def _bind_after_writes(self, info: QueuedPodInfo, placement: Placement) -> None:
        """Bind a pod once writes about it that must come first have ended."""
        await self._writes.settled(placement.uid)  # a failure that is written late would hide the binding
        try:
            if self._rules.nominated_before_waits:
                await self._nominate_if_it_will_wait(placement)
        except CycleError as error:
            await self._handle_failed(info, placement, Failure.of(error))
            return
        self._bind(info, placement)

    async def _nominate_if_it_will_wait(self, placement: Placement) -> None:
        """Nominate a pod for its node if its binding will wait, so that users and autoscalers expect it there.

        The binding goes on if that cannot be written. Raises CycleError as the engine's `will_wait`.
        """
        if self._engine.cluster.placements.get(placement.uid) is not placement:
            return  # the pod has gone meanwhile, as `bind` will find
        pod, node_name = placement.pod, placement.node_name
        if self._engine.will_wait(placement) and not self._pending.nominations.is_shown(pod, node_name):
            self._reports.note_nomination(pod, node_name)
            await asyncio.wait([self._writes.patch_status(pod, nomination_patch(pod, node_name))])

    def _bind(self, info: QueuedPodInfo, placement: Placement) -> None:
        """Bind a pod in the background, in one task: a second one around it takes longer than most of a binding."""
        binder, binding = self._engine.binder, self._engine.bind(placement)
        if binder.binding_of(placement.uid) is None:
            task = binder.start(placement.uid, placement.node_name, binding).task
        else:
            task = asyncio.create_task(binding)  # fails, as the pod is being bound
        self.under_way.add(task)
        task.add_done_callback(partial(self._end, info, placement))

    def _end(self, info: QueuedPodInfo, placement: Placement, task: asyncio.Task[None]) -> None:
        self.under_way.discard(task)
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
            self._start(self._end_failed(info, placement, error))
        else:
            raise error

    async def _end_failed(self, info: QueuedPodInfo, placement: Placement, error: BindError) -> None:
        # A pod that may be bound must not be queued: it would be skipped, and then be in no queue.
        if await self._engine.binder.confirmations.until_known(placement):
            self._report_bound(info, placement)
        else:
            await self._handle_failed(info, placement, Failure.of(error))

    def _report_bound(self, info: QueuedPodInfo, placement: Placement) -> None:
        pod, node_name = placement.pod, placement.node_name
        log_fields(log, logging.INFO, "bound a pod", {"pod": info.key, "node": node_name}, at=self._wall_clock())
        self._record(pod_events.scheduled(pod_reference(pod), node_name, controller=pod.spec.scheduler_name))
        self._metrics.scheduled(info)
        self._queue.done(placement.uid)

    async def _handle_failed(self, info: QueuedPodInfo, placement: Placement, failure: Failure) -> None:
        """Let other pods have the room that is free again, and queue the pod again (handleBindingCycleError)."""
        await self._failures.wait_for_looks(info, failure)
        pod, left = placement.pod, pod_on(placement.pod, placement.node_name)
        if not failure.is_rejection:
            self._queue.move_all_to_active_or_backoff(self._room_freed, left, None)
            self._failures.handle(info, pod, failure)
            return
        uid = placement.uid
        self._failures.handle(info, pod, failure)
        # Only now, and without itself: the room that a rejected pod leaves does not help it.
        self._queue.move_all_to_active_or_backoff(self._room_freed, left, None, lambda other: pod_uid(other) != uid)

    def _queue_lost(self, placement: Placement) -> None:
        """Let other pods have the room of a pod that was bound and is no longer. No event may say so.

        If its binding was lost, it is queued again. If it has ended, the watch may show older versions of it.
        """
        key = pod_name(placement.pod)
        pod = self._pending.get(key)
        if pod is not None and pod_uid(pod) == placement.uid:
            if placement.is_confirmed:
                self._pending.note_ended(key)
            else:
                self._queue_again(key, pod)
        left = pod_on(placement.pod, placement.node_name)
        self._queue.move_all_to_active_or_backoff(self._room_freed, left, None)

    def _queue_returned(self, placement: Placement) -> None:
        """Queue a pod that had ended, and is to be scheduled again.

        Any other is queued already: the watch has shown its binding or its end, and then showed it on no node again.
        """
        key = pod_name(placement.pod)
        pod = self._pending.get(key)
        if pod is not None and pod_uid(pod) == placement.uid and self._pending.has_ended(key):
            self._pending.note_returned(key)
            self._queue_again(key, pod)

    def _queue_again(self, key: str, pod: Pod) -> None:
        self._pending.nominations.forget(key, pod_uid(pod))
        self._queue.add(pod)

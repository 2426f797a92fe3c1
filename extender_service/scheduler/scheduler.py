"""The scheduler's loop: pop a pod, find it a node, bind it in the background, turn to the next (schedule_one.go).

                            ┌──────────── fails: condition, event, back to the queue ◀───────────┐
                            │                     ▲                                              │
    queue ──pop──▶ attempt ─┤                     │ victims' deletions are answered              │
                            ├─ preempts: nominated at once ──▶ evict victims (background)        │
                            └─ placed: reserved, permitted ──▶ bind (background) ────────────────┤
                                                                                                 ▼
                                                                                   bound: event, done
One pod is attempted at a time, in the queue's order; whatever waits for the API server does so in the background.
`bindings.py`, `preempting.py` and `failure_handler.py` have what follows an attempt.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from extender_service.cluster.state.placements import Placement
from extender_service.framework.running_preemptions import RunningPreemptions
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.writing.event_recorder import Occurrence
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.attempt import Attempts, Outcome, Preemption
from extender_service.scheduler.bindings import Bindings
from extender_service.scheduler.failure import SCHEDULER_ERROR, Failure
from extender_service.scheduler.failure_handler import FailureHandler
from extender_service.scheduler.failure_reports import FailureReports
from extender_service.scheduler.metrics.attempts import UNCOUNTED, AttemptMetrics
from extender_service.scheduler.nominated_pods import report_unnominated
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduler.preempting import Preempting
from extender_service.scheduling import pod_events
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.pod_events import pod_reference
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
        self._queue = queue
        self._pending = pending
        self._record = record
        self._sleep = sleep
        self._metrics = metrics
        self._background: set[asyncio.Task[None]] = set()
        rules = engine.cluster.rules
        self._writes = PodWrites(api, sleep, rules)
        self._reports = FailureReports(
            self._writes,
            pending,
            wall_clock,
            held_back_seconds,
            with_generation=rules.conditions_have_generation,
            on_unwritten=partial(report_unnominated, queue, rules),
        )
        self._failures = FailureHandler(queue, pending, self._reports, record, rules, wall_clock, metrics)
        self._bindings = Bindings(
            engine,
            queue,
            pending,
            self._writes,
            self._reports,
            self._failures,
            record,
            self._start,
            wall_clock,
            metrics,
        )
        self._preempting = Preempting(
            engine,
            queue,
            pending,
            preemptions,
            self._writes,
            self._reports,
            self._failures,
            record,
            self._start,
            wall_clock,
            metrics,
            held_back_seconds,
        )

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
        return len(self._bindings.under_way) + len(self._background) + len(self._reports) + len(self._writes)

    async def close(self) -> None:
        """Wait until bindings, deletions of victims and writes under way have ended."""
        while under_way := self._bindings.under_way | self._background:
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
        self._bindings.abandon()
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
                self._bindings.begin(info, placement)
            case Preemption() as preemption:
                self._preempting.begin(info, pod, profile, preemption, popped_at_cycle)
            case Failure() as failure:
                self._failures.handle(info, pod, failure)

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

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work in the background of the loop."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _flush(self, seconds: Callable[[], float], flush: Callable[[], None]) -> None:
        """Flush a queue again and again, after as many seconds as it says by then."""
        while True:
            await self._sleep(seconds())
            flush()

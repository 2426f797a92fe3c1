"""What follows a failed attempt or binding: the pod is queued again, and users see why (handleSchedulingFailure).

          ┌──▶ back to the queue, nominated as was decided
failed ───┼──▶ event
          └──▶ condition, and nominated node, once they can be written (failure_reports.py)
"""

import logging
from collections.abc import Callable

from extender_service.config.rules import Rules
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.writing.event_recorder import Occurrence, cut_note
from extender_service.observability.logs import log_fields
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.failure import UNSCHEDULABLE, Failure
from extender_service.scheduler.failure_reports import FailureReports
from extender_service.scheduler.look_budget import LookBudget
from extender_service.scheduler.metrics.attempts import AttemptMetrics
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduling import pod_events
from extender_service.scheduling.pod_events import pod_reference
from extender_service.seams import WallClock

log = logging.getLogger(__name__)


class FailureHandler:
    """Handles the failures of the pods that are in flight."""

    def __init__(
        self,
        queue: SchedulingQueue,
        pending: PodLister,
        reports: FailureReports,
        record: Callable[[Occurrence], None],
        rules: Rules,
        wall_clock: WallClock,
        metrics: AttemptMetrics,
    ) -> None:
        self._queue = queue
        self._pending = pending
        self._reports = reports
        self._record = record
        self._rules = rules
        self._wall_clock = wall_clock
        self._metrics = metrics
        self._looks = LookBudget()

    async def wait_for_looks(self, info: QueuedPodInfo, failure: Failure) -> None:
        """Wait while pods that come back in this turn of the event loop have many events to look at."""
        _note_rejection(info, failure)
        await self._looks.take(self._queue.count_missed(info))

    def handle(self, info: QueuedPodInfo, pod: Pod, failure: Failure, popped_at_cycle: int | None = None) -> None:
        """Queue a pod again, and report why its attempt failed.

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
            nominations = self._pending.nominations
            if failure.nomination is not None:
                nominations.decide(latest, failure.nomination)
            info.pod = nominations.as_decided(latest)
            if popped_at_cycle is None:
                popped_at_cycle = self._queue.scheduling_cycle
            self._queue.add_unschedulable_if_not_present(info, popped_at_cycle)
            self._queue.nominator.add(info.pod, failure.nomination)
        self._record(
            pod_events.failed_scheduling(pod_reference(pod), failure.message, controller=pod.spec.scheduler_name)
        )
        self._reports.add(pod, failure)


def _note_rejection(info: QueuedPodInfo, failure: Failure) -> None:
    if failure.fit_error is not None:
        info.unschedulable_plugins = failure.fit_error.plugins
        info.pending_plugins = failure.fit_error.pending_plugins

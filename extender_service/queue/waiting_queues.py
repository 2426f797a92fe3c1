"""The queues in which pods wait, and the ways from one to another, past PreEnqueue.

SchedulingQueue decides which pod moves, and when.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from extender_service.config.rules import Rules
from extender_service.framework.events import FORCE_ACTIVATE, reported_events
from extender_service.framework.profile import Profile
from extender_service.framework.queueing_hints import QueueingHints
from extender_service.framework.runtime import run_pre_enqueue
from extender_service.framework.status import Code
from extender_service.queue.backoff_queue import BackoffQueue
from extender_service.queue.interested_plugins import Requeueing
from extender_service.queue.keyed_heap import KeyedHeap
from extender_service.queue.nominator import Nominator
from extender_service.queue.pod_backoff import PodBackoff
from extender_service.queue.queue_metrics import QueueMetrics
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.unschedulable_pods import UnschedulablePods
from extender_service.seams import Clock

log = logging.getLogger(__name__)

# Queues, as metrics name them.
ACTIVE: Final = "active"
BACKOFF: Final = "backoff"
UNSCHEDULABLE: Final = "unschedulable"
GATED: Final = "gated"

# What brings a pod to a queue besides events of the cluster.
POD_ADD: Final = "PodAdd"
POD_UPDATE: Final = "PodUpdate"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"


class WaitingQueues:
    """The pods that wait, each in one of `active`, `backing_off` and `unschedulable`.

    `added` and `updated` are the event labels for a new and an updated pod.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        hints: Mapping[str, QueueingHints],
        rules: Rules,
        nominator: Nominator,
        *,
        clock: Clock,
        metrics: QueueMetrics,
        backoff: PodBackoff,
        order: Callable[[QueuedPodInfo], Any],
    ) -> None:
        self._profiles = profiles
        self._rules = rules
        self._nominator = nominator
        self._clock = clock
        self._metrics = metrics
        self.active: KeyedHeap[QueuedPodInfo] = KeyedHeap(order)
        self.backing_off = BackoffQueue(backoff, rules, clock, order)
        self.unschedulable = UnschedulablePods(hints, rules)
        self.added, self.updated = POD_ADD, POD_UPDATE
        if rules.events_named_by_action:
            events = reported_events(rules)
            self.added, self.updated = events.unscheduled_pod_add, events.unscheduled_pod_update.label

    def pop(self) -> QueuedPodInfo | None:
        """Remove and return the next pod to be tried, None if there is none."""
        info = self.active.pop()
        if info is None:
            info = self.backing_off.leave()
            if info is not None:
                self._metrics.incoming(ACTIVE, POP_FROM_BACKOFF)
        return info

    def activate(self, key: str) -> bool:
        """Make a pod active that backs off or is unschedulable; return whether it is."""
        info = self.unschedulable.get(key)
        if info is not None:
            return self.move_to_active(info, FORCE_ACTIVATE.label)
        info = self.backing_off.get(key)
        if info is None:
            return False
        rules = self._rules
        if rules.backoff_includes_its_end:  # from then on, a pod that PreEnqueue rejects does not go on backing off
            self.backing_off.remove(key)
        passed = rules.leaves_backoff_early and rules.backing_off_is_ungated
        return self.move_to_active(info, FORCE_ACTIVATE.label, passed=passed)

    def requeue(self, info: QueuedPodInfo, requeueing: Requeueing, event: str) -> str:
        """Put a pod where it belongs, and return the queue. It is not yet taken out of unschedulable."""
        if requeueing is Requeueing.SKIP:
            is_new = self.unschedulable.add_or_update(info, gated_before=info.gated)
            if is_new or not self._rules.gated_pods_come_in:
                self._metrics.incoming(UNSCHEDULABLE, event)
            return UNSCHEDULABLE
        if requeueing is Requeueing.AFTER_BACKOFF and self.backing_off.is_backing_off(info):
            return self.move_to_backoff(info, event)
        return ACTIVE if self.move_to_active(info, event) else UNSCHEDULABLE

    def move_to_active(self, info: QueuedPodInfo, event: str, *, passed: bool = False) -> bool:
        """Make a pod active if PreEnqueue lets it, or if it has `passed`, and return whether it did."""
        gated_before = info.gated
        if not passed:
            self._ask_pre_enqueue(info)
        key = info.key
        if info.gated:
            if key not in self.active and key not in self.backing_off:
                self._keep_out(info, event, gated_before=gated_before)
            return False
        if info.first_attempt_at is None:
            info.first_attempt_at = self._clock()
        self.active.add(key, info)
        self.unschedulable.remove(key, gated=gated_before)
        self.backing_off.remove(key)
        self._metrics.incoming(ACTIVE, event)
        if event in (self.added, self.updated):
            self._nominator.add(info.pod)
        return True

    def move_to_backoff(self, info: QueuedPodInfo, event: str) -> str:
        """Let a pod back off, if PreEnqueue lets it where it is asked before; return the queue."""
        gated_before = info.gated
        if self._rules.leaves_backoff_early:
            self._ask_pre_enqueue(info)
            if info.gated:
                self._keep_out(info, event, gated_before=gated_before)
                return UNSCHEDULABLE
        self.unschedulable.remove(info.key, gated=gated_before)
        self.backing_off.add(info)
        self._metrics.incoming(BACKOFF, event)
        return BACKOFF

    def count_rejected(self, info: QueuedPodInfo, change: int) -> None:
        """Count one more or one fewer pod for each plugin that rejected this one."""
        profile = info.pod.spec.scheduler_name
        for plugin in info.unschedulable_plugins | info.pending_plugins:
            self._metrics.rejected(plugin, profile, change)

    def _ask_pre_enqueue(self, info: QueuedPodInfo) -> None:
        """Take in whether PreEnqueue lets a pod in, and which plugin does not."""
        profile = self._profiles.get(info.pod.spec.scheduler_name)
        first = info.gating_plugin if self._rules.gating_plugin_remembered else ""
        status = None if profile is None else run_pre_enqueue(profile, info.pod, first)
        if status is None:
            info.gating_plugin = ""
            return
        plugin = info.gating_plugin = status.plugin
        if status.code == Code.ERROR:
            log.error(
                "a PreEnqueue plugin failed, so the pod stays gated",
                extra={"pod": info.key, "plugin": plugin, "error": status.message},
            )
        is_counted = plugin in info.unschedulable_plugins or plugin in info.pending_plugins
        if not (is_counted and self._rules.gates_counted_once):
            self._metrics.rejected(plugin, info.pod.spec.scheduler_name, 1)
        info.unschedulable_plugins |= {plugin}

    def _keep_out(self, info: QueuedPodInfo, event: str, *, gated_before: bool) -> None:
        """Put a pod that PreEnqueue rejects to the unschedulable pods."""
        info.was_flushed = False
        if self.unschedulable.add_or_update(info, gated_before=gated_before) and self._rules.gated_pods_come_in:
            self._metrics.incoming(UNSCHEDULABLE, event)

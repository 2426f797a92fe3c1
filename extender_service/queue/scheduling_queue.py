"""The scheduling queue of kube-scheduler (v1.31.1: pkg/scheduler/internal/queue; later: pkg/scheduler/backend/queue).

    add, update ───────────────▶ active ──pop──▶ in flight ──done──▶ (bound, or gone)
         │                       ▲    ▲             │
         │ PreEnqueue            │    │ backoff     │ add_unschedulable_if_not_present
         │ rejects it            │    │ is over     │
         ▼                       │    │             ▼
    unschedulable ──an event may help, or 5 minutes have passed──▶ backoff, or active if its backoff is over
         ▲                                          │
         └───────── no event meanwhile ─────────────┘

A pod is in one of the three queues, or in flight, under its namespace and name. With queueing hints (feature gate
SchedulerQueueingHints), the plugins that rejected a pod say whether an event helps, also about the events that came
while it was in flight. Without, each event that they registered helps, and a pod that comes back after any event that
some plugin registered goes to backoff.

From v1.33 on, pods leave backoff for an attempt when no pod is active, unless they failed with an error. The rules
under "The queue" in config/rules.py are what differs between releases.

Where kube-scheduler loses or leaks pods, this queue differs; docs/scheduler-queue.md lists where.
All methods belong to one event loop.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from extender_service.config.rules import Rules
from extender_service.framework.cluster_event import ActionType, ClusterEvent
from extender_service.framework.events import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT, reported_events
from extender_service.framework.profile import Profile
from extender_service.framework.queueing_hints import QueueingHints
from extender_service.kube.types.core import ObjectMeta, Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.queue.in_flight_events import InFlightEvents
from extender_service.queue.interested_plugins import InterestedPlugins, Requeueing
from extender_service.queue.nominator import Nominator
from extender_service.queue.pod_backoff import DEFAULT_BACKOFF, PodBackoff
from extender_service.queue.pod_update import is_pod_updated
from extender_service.queue.pre_checks import PreCheck
from extender_service.queue.queue_metrics import QueueMetrics
from extender_service.queue.queue_order import queue_order
from extender_service.queue.queued_pod import NO_PLUGINS, QueuedPodInfo, QueueEntry
from extender_service.queue.unschedulable_pods import is_frozen
from extender_service.queue.waiting_queues import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE, WaitingQueues
from extender_service.seams import Clock

log = logging.getLogger(__name__)

# What brings a pod to a queue besides events of the cluster.
SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
BACKOFF_COMPLETE: Final = "BackoffComplete"

MAX_IN_UNSCHEDULABLE_SECONDS: Final = 300.0


class SchedulingQueue:
    """The pods that wait to be scheduled, by when and in which order they are to be tried.

    `profiles` and `hints` are by scheduler name; the profiles share one order (QueueSort). `rules` are those of the
    release that the queue follows. `is_pending` returns whether the watch shows a pod of a key (namespace/name) that is
    on no node. `namespace_labels` returns the labels of a namespace, none for an unknown one.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        hints: Mapping[str, QueueingHints],
        rules: Rules,
        *,
        clock: Clock,
        metrics: QueueMetrics,
        is_pending: Callable[[str], bool],
        namespace_labels: Callable[[str], Mapping[str, str]],
        backoff: PodBackoff = DEFAULT_BACKOFF,
        max_in_unschedulable_seconds: float = MAX_IN_UNSCHEDULABLE_SECONDS,
    ) -> None:
        self._rules = rules
        self._events = reported_events(rules)
        self._interested = InterestedPlugins(hints, rules)
        self._clock = clock
        self._namespace_labels = namespace_labels
        self._uses_hints = rules.queueing_hints
        self._max_in_unschedulable_seconds = max_in_unschedulable_seconds
        order = queue_order(next(iter(profiles.values())).queue_sort[0])
        self.nominator = Nominator(is_pending, keeps_empty=not rules.unknown_pods_added)
        self._queues = WaitingQueues(
            profiles, hints, rules, self.nominator, clock=clock, metrics=metrics, backoff=backoff, order=order
        )
        self._active = self._queues.active
        self._backing_off = self._queues.backing_off
        self._unschedulable = self._queues.unschedulable
        # The queues from which `pop` takes pods.
        self._popped = frozenset((ACTIVE, BACKOFF) if rules.leaves_backoff_early else (ACTIVE,))
        self._in_flight = InFlightEvents()
        self._held: set[str] = set()
        self._scheduling_cycle = 0
        # The cycle in which the last event came that some plugin registered.
        self._move_request_cycle = -1
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    # Pods of the watch.

    def add(self, pod: Pod) -> None:
        """Add a pod that is new."""
        if self._rules.gated_nominees:
            self.nominator.add(pod)
        if self._queues.move_to_active(self._new(pod), self._queues.added):
            self._wake()

    def update(self, old: Pod, new: Pod) -> None:
        """Take in that a pod that is on no node has changed, which may make it worth an attempt at once.

        Without hints, a pod in flight counts as unknown and is queued once more: its first attempt may come back later,
        and is then dropped. Raises QuantityError for a malformed request, which no API server stores.
        """
        if self._uses_hints and pod_uid(new) in self._in_flight:
            self._note_update(old, new)
            return
        if pod_uid(new) in self._held:
            return
        key = pod_name(old)
        info = self._active.get(key)
        if info is not None:
            info.pod = new
            self.nominator.update(old, new)
            self._active.add(key, info)
            return
        info = self._backing_off.get(key)
        if info is not None:
            info.pod = new
            self.nominator.update(old, new)
            self._backing_off.add(info)
            return
        info = self._unschedulable.get(pod_name(new))
        if info is None:
            self._add_unknown(new)
            return
        info.pod = new
        self.nominator.update(old, new)
        if self._uses_hints:
            self._update_unschedulable_with_hints(info, old)
        else:
            self._update_unschedulable(info, old)

    def delete(self, pod: Pod) -> None:
        """Forget a pod that was deleted or is on a node now. Its attempt, if it is in flight, goes on."""
        self.nominator.remove(pod)
        key = pod_name(pod)
        queued = self._active.get(key) or self._backing_off.get(key)
        if queued is not None:
            if self._rules.deleted_pods_uncounted:
                self._queues.count_rejected(queued, -1)
            if self._active.remove(key):
                return
            self._backing_off.remove(key)
        info = self._unschedulable.get(key)
        if info is not None:
            self._unschedulable.remove(key, gated=info.gated)
            if self._rules.gates_counted_once:
                self._queues.count_rejected(info, -1)

    # The scheduler's attempts.

    @property
    def scheduling_cycle(self) -> int:
        """How many pods were popped."""
        return self._scheduling_cycle

    def pop(self) -> QueuedPodInfo | None:
        """Take the next pod for an attempt, None if there is none.

        The pod is in flight until it comes back (`add_unschedulable_if_not_present`) or `done` is called for it.
        """
        info = self._queues.pop()
        while info is not None and self._is_under_way(info):
            info = self._queues.pop()
        if info is None:
            return None
        info.attempts += 1
        self._scheduling_cycle += 1
        if self._uses_hints:
            self._in_flight.start(pod_uid(info.pod))
        if info.unschedulable_plugins or info.pending_plugins:
            self._queues.count_rejected(info, -1)
            info.unschedulable_plugins = info.pending_plugins = NO_PLUGINS
        return info

    async def wait(self) -> bool:
        """Wait until `pop` returns a pod; returns False once the queue is closed. There is one waiter at a time."""
        while not (self._active or self._backing_off.may_leave or self._closed):
            assert self._waiter is None, "only one task may wait for pods"
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return not self._closed

    @property
    def is_waited_for(self) -> bool:
        """Whether a task waits for a pod, and none is active."""
        return self._waiter is not None and not self._waiter.done()

    def close(self) -> None:
        """End the wait for pods."""
        self._closed = True
        self._wake()

    def done(self, uid: str) -> None:
        """Note that the attempt of a pod is over; nothing happens if it is over already."""
        self._in_flight.done(uid)

    def count_missed(self, info: QueuedPodInfo) -> int:
        """Return how many events are looked at when a pod in flight comes back, rejected by the plugins that it has."""
        if not info.unschedulable_plugins and not info.pending_plugins:
            return 0
        return self._in_flight.count_since(pod_uid(info.pod), partial(self._interested.may_matter, info))

    def add_unschedulable_if_not_present(self, info: QueuedPodInfo, cycle: int) -> bool:
        """Take a pod back that was popped and not scheduled, and note that its attempt is over.

        `info` has the plugins that rejected it, and the latest version of the pod. `cycle` is the scheduling cycle now.
        Returns False, and drops `info`, if the pod has been queued again meanwhile.
        """
        uid, key = pod_uid(info.pod), info.key
        try:
            if self._unschedulable.get(key) is not None or key in self._active or key in self._backing_off:
                return False
            self._note_failure(info)
            self._queues.count_rejected(info, 1)
            if self._uses_hints:
                queue = self._queues.requeue(info, self._requeueing_in_flight(info, uid), SCHEDULE_ATTEMPT_FAILURE)
            elif self._move_request_cycle >= cycle or not (info.unschedulable_plugins or info.pending_plugins):
                queue = self._queues.move_to_backoff(info, SCHEDULE_ATTEMPT_FAILURE)
            else:
                queue = self._queues.requeue(info, Requeueing.SKIP, SCHEDULE_ATTEMPT_FAILURE)
            if queue in self._popped:
                self._wake()
            return True
        finally:
            self._in_flight.done(uid)

    def hold(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod in flight for a node, and keep it out of the queue until `release`, however it changes.

        For attempts that wait for the API server, which in kube-scheduler end at once: a second attempt at the same
        time would preempt again.
        """
        self._held.add(pod_uid(pod))
        # It may have changed while extenders were asked, and be queued once more: `release` takes that in, too. A pod
        # that was made again meanwhile stays.
        queued = self._queued(pod_name(pod))
        if queued is not None and pod_uid(queued.pod) == pod_uid(pod):
            self.delete(pod)
        self.nominator.add(pod, node_name)

    def release(self, pod: Pod, latest: Pod | None) -> None:
        """End `hold`, once the pod has come back: take in how it has changed meanwhile. None if it is gone."""
        self._held.discard(pod_uid(pod))
        if latest is not None and latest.metadata.resource_version != pod.metadata.resource_version:
            self.update(pod, latest)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Make pods active that back off or are unschedulable.

        From v1.32 on, pods in flight are tried again when they come back. Others stay where they are.
        """
        activated = False
        for pod in pods:
            if self._queues.activate(pod_name(pod)):
                activated = True
            elif self._rules.own_changes_in_flight:
                if not self._uses_hints:
                    self._move_request_cycle = self._scheduling_cycle
                elif pod_uid(pod) in self._in_flight:
                    self._in_flight.record(FORCE_ACTIVATE, None, pod)
        if activated:
            self._wake()

    # Changes of the cluster.

    def move_all_to_active_or_backoff(
        self, event: ClusterEvent, old: Any = None, new: Any = None, pre_check: PreCheck | None = None
    ) -> None:
        """Move the unschedulable pods that an event may help.

        `old` and `new` are the object before and after it: None for `old` if it was added, for `new` if it was deleted.
        """
        interest = self._interested.of(event)
        if interest is None:
            return
        unschedulable = self._unschedulable
        infos = list(unschedulable) if event.is_wild_card else unschedulable.rejected_by(interest.plugins)
        if pre_check is not None:
            infos = [info for info in infos if pre_check(info.pod)]
        self._move(infos, event, old, new)

    def is_registered(self, event: ClusterEvent) -> bool:
        """Return whether any plugin registered an event."""
        return self._interested.of(event) is not None

    @property
    def looks_at_events(self) -> bool:
        """Whether an event is compared with pods: some are unschedulable, or in flight and asked about it later."""
        return bool(self._unschedulable or (self._uses_hints and self._in_flight))

    def assigned_pod_added(self, pod: Pod) -> None:
        """Move the pods that a new pod on a node may help: those with affinity or topology spread. For use without
        hints, as kube-scheduler does."""
        self._move_near(pod, self._events.assigned_pod_add, None, pod)

    def assigned_pod_updated(self, old: Pod, new: Pod, event: ClusterEvent) -> None:
        """Move the pods that a change of a pod on a node may help; `event` is one of the changes that it is."""
        if event.action & ActionType.UPDATE_POD_SCALE_DOWN:
            reported = event if self._rules.events_named_by_action else self._events.assigned_pod_update
            self.move_all_to_active_or_backoff(reported, old, new)
        else:
            self._move_near(new, event, old, new)

    # To be called after `seconds_to_flush`, and each 30 seconds.

    @property
    def seconds_to_flush(self) -> float:
        """In how many seconds the next flush of those is due whose backoff is over."""
        return self._backing_off.seconds_to_flush

    def flush_backoff_completed(self) -> None:
        """Make the pods active whose backoff is over."""
        activated = False
        for info in self._backing_off.pop_completed():
            activated |= self._queues.move_to_active(info, BACKOFF_COMPLETE, passed=self._rules.leaves_backoff_early)
        if activated:
            self._wake()

    def flush_unschedulable_leftover(self) -> None:
        """Move the pods that have been unschedulable for longer than the maximum."""
        now, longest = self._clock(), self._max_in_unschedulable_seconds
        leftover = [info for info in self._unschedulable if now - self._waits_since(info) > longest]
        for info in leftover:
            info.was_flushed, info.flushed_at = True, now
        if leftover:
            self._move(leftover, UNSCHEDULABLE_TIMEOUT, None, None)

    # What is where.

    def pending_pods(self) -> tuple[list[Pod], str]:
        """Return the pods that are not in flight, and how many wait where, as kube-scheduler's debugger writes it."""
        active, backing_off, unschedulable = self._active, self._backing_off, self._unschedulable
        summary = f"activeQ:{len(active)}; backoffQ:{len(backing_off)}; unschedulablePods:{len(unschedulable)}"
        return [info.pod for infos in (active, backing_off, unschedulable) for info in infos], summary

    def pending_counts(self) -> Mapping[str, int]:
        """Return how many pods wait by queue (pending_pods)."""
        return {
            ACTIVE: len(self._active),
            BACKOFF: len(self._backing_off),
            UNSCHEDULABLE: self._unschedulable.unschedulable_count,
            GATED: self._unschedulable.gated_count,
        }

    def in_flight_counts(self) -> Mapping[str, int]:
        """Return how many events are kept for pods in flight, by label, and of such pods (inflight_events)."""
        return self._in_flight.counts()

    def entries(self) -> Iterator[QueueEntry]:
        """Yield the pods that are not in flight, with where they wait and until when."""
        for info in self._active:
            yield QueueEntry(ACTIVE, info, None)
        for info in self._backing_off:
            yield QueueEntry(BACKOFF, info, self._backing_off.end(info))
        for info in self._unschedulable:
            until = None if self._is_kept(info) else self._waits_since(info) + self._max_in_unschedulable_seconds
            yield QueueEntry(GATED if info.gated else UNSCHEDULABLE, info, until)

    def nominated_pods_for_node(self, node_name: str) -> list[Pod]:
        """Return the pods that are nominated for a node, as the queue knows them; of one in flight only the name and
        UID."""
        return [self._nominated(key, uid) for key, uid in self.nominator.on_node(node_name)]

    # How it works.

    def _new(self, pod: Pod) -> QueuedPodInfo:
        return QueuedPodInfo(pod, self._clock(), pod_name(pod))

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _requeueing_in_flight(self, info: QueuedPodInfo, uid: str) -> Requeueing:
        """Return what the events since a pod was popped mean to it, now that it is known who rejected it."""
        if uid not in self._in_flight:
            log.error("a pod came back that was not in flight", extra={"pod": info.key})
            return Requeueing.AFTER_BACKOFF
        if not info.unschedulable_plugins and not info.pending_plugins:
            return Requeueing.AFTER_BACKOFF
        found = Requeueing.SKIP
        for _, event, old, new in self._in_flight.since(uid, partial(self._interested.may_matter, info)):
            requeueing = self._interested.requeueing(info, event, old, new)
            if requeueing is Requeueing.IMMEDIATELY:
                return requeueing
            if requeueing is Requeueing.AFTER_BACKOFF:
                if not info.pending_plugins:
                    return requeueing
                found = requeueing
        return found

    def _is_under_way(self, info: QueuedPodInfo) -> bool:
        """Whether a pod is in flight already, so that this entry of it is to be dropped."""
        if not (self._uses_hints and self._rules.one_attempt_at_a_time and pod_uid(info.pod) in self._in_flight):
            return False
        log.error("a pod that is in flight was queued once more, and is dropped", extra={"pod": info.key})
        return True

    def _note_failure(self, info: QueuedPodInfo) -> None:
        """Note that an attempt failed now, by an error if no plugin has rejected the pod."""
        if info.unschedulable_plugins or info.pending_plugins:
            info.rejections += 1
            info.errors = 0
        else:
            info.errors += 1
        info.queued_at = self._clock()
        info.was_flushed, info.flushed_at = False, None

    def _note_update(self, old: Pod, new: Pod) -> None:
        """Note that a pod in flight has changed."""
        if self._rules.own_changes_in_flight:
            events = self._events.own_changes(old, new)
        else:
            events = [self._events.unscheduled_pod_update]
        for event in events:
            self._in_flight.record(event, old, new)

    def _add_unknown(self, pod: Pod) -> None:
        """Add a pod that has changed and is in no queue."""
        if self._rules.unknown_pods_added:
            self.add(pod)
        elif self._queues.move_to_active(self._new(pod), self._queues.updated):
            self._wake()

    def _waits_since(self, info: QueuedPodInfo) -> float:
        if info.flushed_at is None or not self._rules.leftovers_flushed_in_turn:
            return info.queued_at
        return max(info.flushed_at, info.queued_at)

    def _is_kept(self, info: QueuedPodInfo) -> bool:
        """Whether the flush of leftovers leaves a pod where it is."""
        if not self._rules.gating_plugin_remembered:
            return is_frozen(info)
        return info.gated and not self._rules.leftovers_flushed_in_turn

    def _update_unschedulable(self, info: QueuedPodInfo, old: Pod) -> None:
        if not is_pod_updated(old, info.pod):
            self._unschedulable.add_or_update(info, gated_before=info.gated)
            return
        event = self._queues.updated if self._rules.gated_pods_come_in else BACKOFF_COMPLETE
        if not self._backing_off.is_backing_off(info):
            if self._queues.move_to_active(info, event):
                self._wake()
        elif self._rules.gated_pods_come_in:
            if self._queues.move_to_backoff(info, event) in self._popped:
                self._wake()
        else:  # before v1.33, queue_incoming_pods_total does not count these
            self._backing_off.add(info)
            self._unschedulable.remove(info.key, gated=info.gated)

    def _update_unschedulable_with_hints(self, info: QueuedPodInfo, old: Pod) -> None:
        key, new = info.key, info.pod
        for event in self._events.own_changes(old, new):
            requeueing = self._interested.requeueing(info, event, old, new)
            if requeueing is Requeueing.SKIP and key in self._backing_off:
                continue  # without early leaving, kube-scheduler has it in unschedulable as well: in two queues
            by = event if self._rules.own_changes_in_flight else self._events.unscheduled_pod_update
            if self._queues.requeue(info, requeueing, by.label) in self._popped:
                self._wake()
                return

    def _move_near(self, pod: Pod, event: ClusterEvent, old: Pod | None, new: Pod) -> None:
        if self._interested.of(event) is not None:
            infos = self._unschedulable.near(pod, self._namespace_labels(pod.metadata.namespace))
            self._move(infos, event, old, new)

    def _move(self, infos: Collection[QueuedPodInfo], event: ClusterEvent, old: Any, new: Any) -> None:
        activated = False
        for info in infos:
            if info.gated and not self._moves_gated(info, event):
                continue
            requeueing = self._interested.requeueing(info, event, old, new)
            if requeueing is not Requeueing.SKIP:
                self._unschedulable.remove(info.key, gated=info.gated)
                activated |= self._queues.requeue(info, requeueing, event.label) in self._popped
        self._move_request_cycle = self._scheduling_cycle
        if self._uses_hints and self._in_flight:
            self._in_flight.record(event, old, new)
        if activated:
            self._wake()

    def _moves_gated(self, info: QueuedPodInfo, event: ClusterEvent) -> bool:
        """Whether an event may move a gated pod: v1.31.1 excepts those of SchedulingGates, later releases all but those
        whose gating plugin has registered the event."""
        if not self._rules.gating_plugin_remembered:
            return not is_frozen(info)
        if event.is_wild_card and self._rules.leftovers_flushed_in_turn:
            return True
        interest = self._interested.of(event)
        return interest is not None and info.gating_plugin in interest.plugins

    def _queued(self, key: str) -> QueuedPodInfo | None:
        return self._active.get(key) or self._unschedulable.get(key) or self._backing_off.get(key)

    def _nominated(self, key: str, uid: str) -> Pod:
        info = self._queued(key)
        if info is not None:
            return info.pod
        namespace, _, name = key.partition("/")
        return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid))

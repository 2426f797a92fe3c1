"""The scheduler's metrics for Prometheus, under kube-scheduler's names and labels (pkg/scheduler/metrics/metrics.go).

docs/scheduler.md lists all metrics of kube-scheduler, with what stands for each here.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.framework.queueing_hints import HintTiming
from extender_service.observability.cheap_metrics import CheapCounter, CheapHistogram
from extender_service.observability.preemption_metrics import PreemptionMetrics
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.scheduler.metrics.evaluations import Evaluations
from extender_service.scheduler.metrics.event_timing import EventTiming
from extender_service.scheduling.decision import Decision
from extender_service.seams import Clock

# From this number of attempts on, pods are counted together.
_MOST_ATTEMPTS = 15
_ATTEMPT_SECONDS = tuple(0.001 * 2**power for power in range(15))
_SLI_SECONDS = tuple(0.01 * 2**power for power in range(20))
_EVENT_SECONDS = tuple(0.0001 * 2**power for power in range(12))
_HINT_SECONDS = tuple(0.00001 * 1.5**power for power in range(20))


class SchedulerMetrics:
    """Counts attempts (AttemptMetrics), what happens in the queue (QueueMetrics), and how long events take to handle.

    `clock` is the queue's. Which metrics there are depends on the `rules` of the release.
    """

    def __init__(self, registry: CollectorRegistry, clock: Clock, rules: Rules = DEFAULT_RULES) -> None:
        self._clock = clock
        self._counts_entities = rules.queued_entities_counted
        self.event_timing = EventTiming(clock, self._handled)
        self.hint_timing = HintTiming(clock, self._asked)
        # When the attempts that have not ended began. A pod may have two: without hints, one that changed in flight may
        # be tried again before the failure of its binding is reported.
        self._begun_at: dict[QueuedPodInfo, float] = {}
        self._attempts = CheapCounter(
            "scheduler_schedule_attempts",
            "Attempts to schedule pods: scheduled, unschedulable (no node is right), or error.",
            ["result", "profile"],
            registry=registry,
        )
        self._attempt_seconds = CheapHistogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of an attempt, with its binding.",
            ["result", "profile"],
            buckets=_ATTEMPT_SECONDS,
            registry=registry,
        )
        self._algorithm_seconds = CheapHistogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time to choose a node.",
            buckets=_ATTEMPT_SECONDS,
            registry=registry,
        )
        self._sli_seconds = CheapHistogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's first way into the active queue to its binding, over all attempts.",
            ["attempts"],
            buckets=_SLI_SECONDS,
            registry=registry,
        )
        self._attempts_of_pod = CheapHistogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts until a pod was bound.",
            buckets=(1, 2, 4, 8, 16),
            registry=registry,
        )
        self._after_flush = Counter(
            "scheduler_pod_scheduled_after_flush",
            "Pods that were bound after they had waited for too long for an event, and were tried again without one.",
            registry=registry if rules.bound_after_flush_counted else None,
        )
        self._incoming = CheapCounter(
            "scheduler_queue_incoming_pods",
            "Pods that an event brought to a queue.",
            ["queue", "event"],
            registry=registry,
        )
        self._incoming_entities = CheapCounter(
            "scheduler_queue_incoming_entities",
            "What an event brought to a queue: pods, as there are no groups.",
            ["queue", "event", "type"],
            registry=registry if self._counts_entities else None,
        )
        self._unschedulable = Gauge(
            "scheduler_unschedulable_pods",
            "Pods that a plugin rejected in their last attempt; a pod counts for each such plugin.",
            ["plugin", "profile"],
            registry=registry,
        )
        self._preemption = PreemptionMetrics(registry, clock, rules)
        self._evaluations = Evaluations()
        registry.register(self._evaluations)
        self._event_seconds = CheapHistogram(
            "scheduler_event_handling_duration_seconds",
            "Time to handle an event of the watch.",
            ["event"],
            buckets=_EVENT_SECONDS,
            registry=registry,
        )
        self._hint_seconds = CheapHistogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Time of a plugin's queueing hint.",
            ["plugin", "event", "hint"],
            buckets=_HINT_SECONDS,
            registry=registry if rules.queueing_hints else None,
        )

    def incoming(self, queue: str, event: str) -> None:
        """Count a pod that an event brought to a queue."""
        self._incoming.labels(queue, event).inc()
        if self._counts_entities:
            self._incoming_entities.labels(queue, event, "pod").inc()

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """Count one more or one fewer pod that a plugin rejected in its last attempt."""
        self._unschedulable.labels(plugin, profile).inc(change)

    def begun(self, info: QueuedPodInfo) -> None:
        """Note that an attempt begins."""
        self._begun_at[info] = self._clock()

    def tried_victims(self, decision: Decision) -> None:
        """Note that PostFilter ran for a decision without a feasible node, also if it failed."""
        if decision.state.tried_preemption:
            self._preemption.tried()
        self._evaluations.tried_victims(decision)

    def decided(self, info: QueuedPodInfo) -> None:
        """Note that the nodes were judged."""
        self._algorithm_seconds.observe(self._clock() - self._begun_at[info])

    def judged(self, decision: Decision) -> None:
        """Note a decision, with its scores if it has any."""
        self._evaluations.judged(decision)

    def scored(self, decision: Decision) -> None:
        """Note the scores of a decision, if it has any."""
        self._evaluations.scored(decision)

    def preempted(self, victims: int) -> None:
        """Note that so many victims were deleted for a pod."""
        self._preemption.preempted(victims)

    def preempting(self) -> Callable[[str], None]:
        """Note that victims are evicted in the background; call what it returns at the end: success or error."""
        return self._preemption.preempting()

    def scheduled(self, info: QueuedPodInfo) -> None:
        """Note that the pod is bound."""
        self._end(info, "scheduled")
        self._attempts_of_pod.observe(info.attempts)
        if info.was_flushed:
            self._after_flush.inc()
        if info.first_attempt_at is not None:
            attempts = str(info.attempts) if info.attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
            self._sli_seconds.labels(attempts).observe(self._clock() - info.first_attempt_at)

    def abandoned(self, info: QueuedPodInfo) -> None:
        """Note that the attempt ended as the pod is gone: it counts under no result."""
        self._begun_at.pop(info, None)

    def failed(self, info: QueuedPodInfo, *, is_unschedulable: bool) -> None:
        """Note that the attempt failed: no node is right, or else an error occurred."""
        self._end(info, "unschedulable" if is_unschedulable else "error")

    def _handled(self, label: str, seconds: float) -> None:
        self._event_seconds.labels(label).observe(seconds)

    def _asked(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        self._hint_seconds.labels(plugin, event, hint).observe(seconds)

    def _end(self, info: QueuedPodInfo, result: str) -> None:
        profile = info.pod.spec.scheduler_name
        self._attempts.labels(result, profile).inc()
        begun_at = self._begun_at.pop(info, None)
        if begun_at is not None:
            self._attempt_seconds.labels(result, profile).observe(self._clock() - begun_at)


class SchedulerState(Collector):
    """What a scrape reads from the scheduler: who waits where, bindings under way, and whether this process leads."""

    def __init__(
        self,
        pending: Callable[[], Mapping[str, int]],
        in_flight: Callable[[], Mapping[str, int]],
        bindings: Callable[[], int],
        is_leading: Callable[[], bool],
        slow_paths: Callable[[], int] | None,
        rules: Rules = DEFAULT_RULES,
    ) -> None:
        """`pending` and `in_flight` are the queue's counts. `slow_paths` returns how often a renewal of the lease read
        it first; None without an election."""
        self._rules = rules
        self._pending = pending
        self._in_flight = in_flight
        self._bindings = bindings
        self._is_leading = is_leading
        self._slow_paths = slow_paths

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they are now."""
        waiting = GaugeMetricFamily(
            "scheduler_pending_pods",
            "Pods that wait, by queue: active, backoff, unschedulable or gated.",
            labels=["queue"],
        )
        entities = GaugeMetricFamily(
            "scheduler_queued_entities", "What waits, by queue: pods, as there are no groups.", labels=["queue", "type"]
        )
        for queue, count in self._pending().items():
            waiting.add_metric([queue], count)
            entities.add_metric([queue, "pod"], count)
        yield waiting
        if self._rules.queued_entities_counted:
            yield entities
        if self._rules.in_flight_events_counted:
            yield self._kept_events()
        running = GaugeMetricFamily(
            "scheduler_goroutines", "Bindings under way (in kube-scheduler, goroutines).", labels=["operation"]
        )
        running.add_metric(["binding"], self._bindings())
        yield running
        if self._slow_paths is None:
            return
        leads = GaugeMetricFamily(
            "leader_election_master_status", "1 if this process leads, 0 if it waits.", labels=["name"]
        )
        leads.add_metric(["kube-scheduler"], int(self._is_leading()))
        yield leads
        slow = CounterMetricFamily(
            "leader_election_slowpath", "Renewals of the lease that had to read it first.", labels=["name"]
        )
        slow.add_metric(["kube-scheduler"], self._slow_paths())
        yield slow

    def _kept_events(self) -> Metric:
        kept = GaugeMetricFamily(
            "scheduler_inflight_events",
            "Events that are kept for pods in flight, and these pods (PodPopped).",
            labels=["event"],
        )
        for event, count in self._in_flight().items():
            kept.add_metric([event], count)
        return kept

"""Puts a scheduler together: its queue, its engine, its loop, and the handlers of what the watch shows."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from extender_service.cluster.owners.owners import Workloads
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.framework.handle import Handle, Pods
from extender_service.framework.profile import Profile
from extender_service.framework.profiles import Profiles
from extender_service.framework.queueing_hints import HintTiming, QueueingHints, queueing_hints
from extender_service.kube.types.workloads import Namespace
from extender_service.queue.pod_backoff import PodBackoff
from extender_service.queue.queue_metrics import QueueMetrics
from extender_service.queue.scheduling_queue import MAX_IN_UNSCHEDULABLE_SECONDS, SchedulingQueue
from extender_service.scheduler.attempt import Attempts
from extender_service.scheduler.choice_log import Explain, logging_choices
from extender_service.scheduler.event_handlers import EventHandlers
from extender_service.scheduler.extenders.extenders import NO_EXTENDERS, Extenders
from extender_service.scheduler.metrics.attempts import AttemptMetrics, UncountedAttempts
from extender_service.scheduler.metrics.event_timing import UNTIMED, EventTiming
from extender_service.scheduler.metrics.pod_resources import PodResourceMetrics
from extender_service.scheduler.node_order import NodeOrder
from extender_service.scheduler.node_sampling import NodeSampling, percentages
from extender_service.scheduler.nominated_pods import nominations
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduler.scheduler import Record, Scheduler
from extender_service.scheduler.time_limit import TimeLimit
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.pod_writes import PodApi
from extender_service.scheduling.write_turns import not_held_back
from extender_service.seams import Sleep, WallClock


class SchedulerApi(Pods, PodApi, Protocol):
    """Where pods are read, bound and written: an API server, or objects in memory."""


class LoopMetrics(AttemptMetrics, QueueMetrics, Protocol):
    """Receives all that a scheduler counts: attempts, what happens in the queue, and the times of events and hints."""

    @property
    def event_timing(self) -> EventTiming:
        """Receives how long each event of the watch took."""

    @property
    def hint_timing(self) -> HintTiming | None:
        """Receives how long each hint function took; None where that is not measured."""


class _Uncounted(UncountedAttempts):
    """Counts nothing."""

    event_timing = UNTIMED
    hint_timing = None

    def incoming(self, queue: str, event: str) -> None:
        """Do nothing."""

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """Do nothing."""


_UNCOUNTED: Final = _Uncounted()


@dataclass(frozen=True)
class SchedulerParts:
    """A scheduler's parts. `hints` are those of its plugins, by scheduler name.

    The cluster's source is to take in objects by `handlers`, from before its first list on.
    """

    hints: Mapping[str, QueueingHints]
    queue: SchedulingQueue
    engine: Engine
    scheduler: Scheduler
    handlers: EventHandlers


def assemble(
    config: KubeSchedulerConfiguration,
    profiles: Mapping[str, Profile],
    handle: Handle,
    api: SchedulerApi,
    pending: PodLister,
    record: Record,
    *,
    sleep: Sleep,
    wall_clock: WallClock,
    metrics: LoopMetrics = _UNCOUNTED,
    resources: PodResourceMetrics | None = None,
    extenders: Extenders = NO_EXTENDERS,
    may_bind: Callable[[], None] = lambda: None,
    decision_seconds: float = math.inf,
    max_in_unschedulable_seconds: float = MAX_IN_UNSCHEDULABLE_SECONDS,
    held_back_seconds: Callable[[], float] = not_held_back,
    explain: Explain | None = None,
) -> SchedulerParts:
    """Return the parts of a scheduler for the cluster of the `handle`, which the plugins of the profiles have, too.

    `profiles` are those of `config`, by scheduler name. `pending` is filled by the handlers, and `resources`, if given,
    follow the pods. Plugins may take `decision_seconds` in an attempt. For `may_bind` see Engine, for
    `held_back_seconds` Scheduler, for `explain` Attempts.
    """
    cluster, rules, clock = handle.cluster, handle.rules, handle.clock
    hints = {
        name: queueing_hints(profile.rejecting, rules, with_extenders=bool(extenders), timing=metrics.hint_timing)
        for name, profile in profiles.items()
    }
    queue = SchedulingQueue(
        profiles,
        hints,
        rules,
        clock=clock,
        metrics=metrics,
        is_pending=pending.__contains__,
        namespace_labels=partial(_known_labels, cluster.workloads),
        backoff=PodBackoff(config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds),
        max_in_unschedulable_seconds=max_in_unschedulable_seconds,
    )
    handle.activate_with(queue.activate)
    by_pod = Profiles(profiles)
    engine = Engine(
        cluster,
        by_pod,
        api,
        may_bind=may_bind,
        nominated_for=nominations(cluster, queue),
        bind_elsewhere=extenders.bind if extenders else None,
    )
    sampling = _sampling(config, cluster, extenders)
    scheduler = Scheduler(
        Attempts(
            engine,
            TimeLimit(clock, decision_seconds),
            sampling,
            extenders,
            metrics,
            logging_choices(explain, wall_clock),
        ),
        engine,
        queue,
        pending,
        api,
        record,
        handle.preemptions,
        sleep=sleep,
        wall_clock=wall_clock,
        metrics=metrics,
        held_back_seconds=held_back_seconds,
    )
    handlers = EventHandlers(
        cluster,
        queue,
        by_pod,
        pending,
        order=None if sampling is None else sampling.order,
        resources=resources,
        timing=metrics.event_timing,
    )
    return SchedulerParts(hints, queue, engine, scheduler, handlers)


def _known_labels(workloads: Workloads, namespace: str) -> Mapping[str, str]:
    """Return the labels of a namespace; none for an unknown one, as all are if no plugin reads namespaces."""
    found = workloads.find(Namespace, ("", namespace))
    return {} if found is None else found.metadata.labels


def _sampling(config: KubeSchedulerConfiguration, cluster: Cluster, extenders: Extenders) -> NodeSampling | None:
    """Return what chooses the nodes to look at; None where the configuration asks for all."""
    wanted = percentages(config)
    if wanted is None:
        return None
    return NodeSampling(
        NodeOrder(cluster.nodes),
        wanted,
        extenders_filter=extenders.filter_any,
        extenders_score=extenders.score_any,
    )

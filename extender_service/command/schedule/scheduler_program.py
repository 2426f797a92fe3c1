"""A scheduler as a program: with the lease, HTTPS, and what runs beside the loop, until a signal ends it.

caches synced ──▶ lead ──▶ schedule ──SIGTERM──▶ finish writes ──▶ release the lease ──▶ exit 0
                    └──────── lease lost: nothing is written any more ──▶ exit 1

With delayCacheUntilActive, a replica leads first. Then it syncs its caches, and goes on to renew the lease meanwhile.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from extender_service.cluster.sources.api_server import ApiServer
from extender_service.command.background import debug_on_signal, log_sync
from extender_service.command.schedule.election import Candidacy
from extender_service.command.schedule.secure_server import SecureListener
from extender_service.config.types import KubeSchedulerConfiguration
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.writing.event_recorder import EventRecorder
from extender_service.observability.configz import configuration_route
from extender_service.observability.health import Health, release_check, watch_checks
from extender_service.observability.metrics_registry import MetricsRegistry
from extender_service.observability.operations import operations_routes, resource_route
from extender_service.observability.sli_metrics import SliMetrics
from extender_service.queue.queue_dump import queue_dump
from extender_service.scheduler.assembly import SchedulerParts
from extender_service.scheduler.extenders.extenders import Extenders
from extender_service.scheduler.metrics.pod_resources import PodResourceMetrics
from extender_service.seams import Machine

# How long the writes under way may take after SIGTERM, then what follows from their answers, and then the events.
# Meanwhile no other replica leads.
_GRACE_SECONDS = 10.0
_AFTERMATH_SECONDS = 0.1
_EVENTS_SECONDS = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(eq=False)
class SchedulerProgram:
    """A scheduler, and what runs with it. Without a `listener`, nothing is served.

    `watch_release` looks for an upgrade of the API server, also while this replica stands by.
    """

    config: KubeSchedulerConfiguration
    parts: SchedulerParts
    api_server: ApiServer
    client: KubeClient
    extenders: Extenders
    events: EventRecorder
    candidacy: Candidacy
    metrics: MetricsRegistry
    resources: PodResourceMetrics
    listener: SecureListener | None
    machine: Machine
    watch_release: Callable[[], Coroutine[Any, Any, None]]

    def __post_init__(self) -> None:
        self.is_synced = False
        self.health = self._make_health()
        self._stop = asyncio.Event()
        self._following: list[asyncio.Task[None]] = []

    @property
    def delays_cache(self) -> bool:
        """Whether only the leader reads the cluster."""
        return self.config.delay_cache_until_active and self.candidacy.elector is not None

    async def run(self) -> None:
        """Schedule until SIGTERM or SIGINT. Raises an ExceptionGroup with LeaseLostError."""
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.add_signal_handler(each, self._end)
        async with self._serving(), asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(self.events.run()), tasks.create_task(self.watch_release())]
            if await _unless(self._stop, self._get_ready(tasks)):
                await self.candidacy.lead(self._work(tasks))
            for task in (*beside, *self._following):
                task.cancel()

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        if self.listener is None:
            yield
            return
        routes = [
            *operations_routes(self.health, self.metrics.recent_exposition, SliMetrics()),
            resource_route(self.resources.exposition, lambda: self.candidacy.is_leading),
            configuration_route(self.config),
        ]
        async with self.listener.serving(routes):
            yield

    def _make_health(self) -> Health:
        engine, elector = self.parts.engine, self.candidacy.elector
        election = {} if elector is None else {"leaderElection": elector.health_problem}
        return Health(
            {**election, "sched-handler-sync": self._sync_problem, **release_check(engine.cluster.rules.release)},
            election,
            not_judged=engine.unsupported.counts.keys,
        )

    def _sync_problem(self) -> str | None:
        return None if self.is_synced else "waiting for handlers to sync"

    def _end(self) -> None:
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
        self.machine.set_signal_handler(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process at once
        self.health.drain()
        self._stop.set()
        self.parts.queue.close()

    async def _get_ready(self, tasks: asyncio.TaskGroup) -> None:
        """Wait for the caches, unless only the leader has them, and then for the lead."""
        if not self.delays_cache:
            await self._follow(tasks)
        await self.candidacy.acquire()

    async def _follow(self, tasks: asyncio.TaskGroup) -> None:
        cluster, queue, clock = self.parts.engine.cluster, self.parts.queue, self.machine.clock
        checks = watch_checks(self.api_server.states, clock=clock)
        for work in (
            self.api_server.follow(),
            log_sync(cluster, self.api_server, checks, self.machine),
            debug_on_signal(cluster, self.api_server, lambda: queue_dump(queue, clock())),
        ):
            self._following.append(tasks.create_task(work))
        await self.api_server.wait_synced()
        self.is_synced = True

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        scheduler = self.parts.scheduler
        try:
            await _unless(self._stop, self._schedule(tasks))
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS):
                    await asyncio.gather(self.client.finish_writes(), self.extenders.finish_bindings())
            # Thousands of others may wait for their turn, or for their next try.
            with suppress(TimeoutError):
                async with asyncio.timeout(_AFTERMATH_SECONDS):
                    await scheduler.finish_writes()
            await self.events.drain(_EVENTS_SECONDS)
        finally:
            await scheduler.abandon()

    async def _schedule(self, tasks: asyncio.TaskGroup) -> None:
        """Schedule until the queue is closed. The first lists may take long, and so may extenders."""
        if self.delays_cache:
            await self._follow(tasks)
        await self.parts.scheduler.run()


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Run `work` to its end; cancel it and return False if `stop` is set before. Cancelled, it cancels `work`, too."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
    finally:
        has_ended = working.done()
        stopping.cancel()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    if has_ended:
        working.result()
    return has_ended

"""Builds the scheduler from its options, and runs it."""

import asyncio
import logging
import signal
import time
from collections import Counter

import uvloop

from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.state.cluster import Cluster
from extender_service.command.background import log_sync
from extender_service.command.options import ScheduleOptions
from extender_service.command.setup import Setup
from extender_service.command.start_error import StartError
from extender_service.config.release import FEATURE_GATES
from extender_service.framework.profiles import Profiles
from extender_service.framework.queueing_hints import queueing_hints
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.pods_by_need import pods_by_need
from extender_service.kube.writing.event_recorder import EventRecorder
from extender_service.observability.health import watch_checks
from extender_service.observability.logs import configure_logging
from extender_service.queue.pod_backoff import PodBackoff
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.event_handlers import EventHandlers
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduler.scheduler import Scheduler, nominations
from extender_service.scheduling.engine import Engine

log = logging.getLogger(__name__)

# How long the writes under way may take after SIGTERM.
_GRACE_SECONDS = 10.0


def schedule(options: ScheduleOptions) -> None:
    """Run the scheduler until SIGTERM or SIGINT. Raises StartError."""
    configure_logging(options.log_level, options.log_format)
    uvloop.run(_schedule(options))


async def _schedule(options: ScheduleOptions) -> None:
    setup = Setup(options.config, options.plugins)
    try:
        credentials = load_credentials(options.kubeconfig, options.master)
    except CredentialsError as error:
        raise StartError(str(error)) from error
    cluster = Cluster()
    names = [profile.scheduler_name for profile in setup.config.profiles]
    # Events have a client of their own, and so a rate of their own.
    async with KubeClient(credentials, limit=setup.request_limit()) as client, KubeClient(credentials) as events_client:
        api_server = ApiServer(cluster, client, setup.reads, pods=pods_by_need(names))
        events = EventRecorder(events_client, names[0])
        queue, scheduler, handlers = _scheduler(setup, cluster, api_server, events)
        api_server.handle_with(handlers.handler)
        checks = watch_checks(api_server.states, stale_limit_seconds=30.0)
        log.info("scheduling", extra={"api_server": credentials.server, "profiles": ",".join(names)})
        loop = asyncio.get_running_loop()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(each, queue.close)
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(work)
                for work in (api_server.follow(), events.run(), log_sync(cluster, api_server, checks))
            ]
            await api_server.wait_synced()
            await scheduler.run()
            async with asyncio.timeout(_GRACE_SECONDS):
                await scheduler.close()
            await events.drain(_GRACE_SECONDS)
            for task in background:
                task.cancel()
        log.info("stopped")


def _scheduler(
    setup: Setup, cluster: Cluster, api_server: ApiServer, events: EventRecorder
) -> tuple[SchedulingQueue, Scheduler, EventHandlers]:
    by_name = setup.profiles(cluster, api_server)
    profiles = Profiles(by_name)
    pending = PodLister()
    uses_hints = FEATURE_GATES.scheduler_queueing_hints
    queue = SchedulingQueue(
        by_name,
        {name: queueing_hints(profile.rejecting, enabled=uses_hints) for name, profile in by_name.items()},
        clock=time.monotonic,
        metrics=_NoMetrics(),
        is_pending=pending.__contains__,
        namespace_labels=cluster.workloads.namespace_labels,
        uses_hints=uses_hints,
        backoff=PodBackoff(setup.config.pod_initial_backoff_seconds, setup.config.pod_max_backoff_seconds),
    )
    engine = Engine(cluster, profiles, api_server, nominated_for=nominations(cluster, queue))
    scheduler = Scheduler(engine, queue, pending, api_server, events.record, sleep=asyncio.sleep, wall_clock=time.time)
    return queue, scheduler, EventHandlers(cluster, queue, profiles, pending, uses_hints=uses_hints)


class _NoMetrics:
    """Counts of the queue."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def incoming(self, queue: str, event: str) -> None:
        """Count a pod that an event brought to a queue."""
        self.counts[queue, event] += 1

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """Count one more or one fewer pod that a plugin rejected."""
        self.counts[plugin, profile] += change

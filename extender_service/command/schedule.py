"""Builds the scheduler from its options, and runs it.

caches synced ──▶ lead ──▶ schedule ──SIGTERM──▶ finish writes ──▶ release the lease ──▶ exit 0
                    └──────── lease lost: nothing is written any more ──▶ exit 1

With delayCacheUntilActive, a replica leads first. Then it syncs its caches, and goes on to renew the lease meanwhile.
"""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uvloop

from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.state.cluster import Cluster
from extender_service.command.background import debug_on_signal, log_sync
from extender_service.command.election import Candidacy, LeaseLostError, decision_seconds
from extender_service.command.free_memory import returning_free_memory
from extender_service.command.huge_pages import begin_to_use_huge_pages
from extender_service.command.schedule_options import ScheduleOptions
from extender_service.command.secure_server import SecureListener
from extender_service.command.server_release import rules_for_server
from extender_service.command.setup import Setup, setup_of_some_release
from extender_service.command.start_error import StartError
from extender_service.config.dump import dump_config
from extender_service.config.loading import Change
from extender_service.config.types import Extender, KubeSchedulerConfiguration
from extender_service.framework.handle import Handle
from extender_service.framework.profiles import Profiles
from extender_service.framework.queueing_hints import queueing_hints
from extender_service.framework.recording import Recorder
from extender_service.kube.any_kind import any_kind
from extender_service.kube.api_resources import NODES
from extender_service.kube.connection.client import KubeClient, RefuseWrites
from extender_service.kube.connection.posts import Posts
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import Credentials, load_credentials
from extender_service.kube.nodes_with_json import NODES_WITH_JSON
from extender_service.kube.pods_by_need import pods_by_need
from extender_service.kube.writing.event_recorder import EventRecorder
from extender_service.observability.configz import configuration_route
from extender_service.observability.health import Health, release_check, watch_checks
from extender_service.observability.logs import configure_logging
from extender_service.observability.metrics_registry import MetricsRegistry
from extender_service.observability.operations import health_routes, operations_routes, resource_route
from extender_service.observability.sli_metrics import SliMetrics
from extender_service.queue.pod_backoff import PodBackoff
from extender_service.queue.queue_dump import queue_dump
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.attempt import SchedulingCycle
from extender_service.scheduler.event_handlers import EventHandlers, storage_kinds
from extender_service.scheduler.extenders.access import posts_to
from extender_service.scheduler.extenders.extender_client import ExtenderClient
from extender_service.scheduler.extenders.extenders import Extenders
from extender_service.scheduler.node_order import NodeOrder
from extender_service.scheduler.node_sampling import NodeSampling, percentages
from extender_service.scheduler.nominated_pods import nominations
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduler.pod_resource_metrics import PodResourceMetrics
from extender_service.scheduler.registered_kinds import RegisteredKind, registered_kinds
from extender_service.scheduler.scheduler import Scheduler
from extender_service.scheduler.scheduler_metrics import SchedulerMetrics, SchedulerState
from extender_service.scheduler.time_limit import TimeLimit
from extender_service.scheduling.engine import Engine
from extender_service.seams import THIS_MACHINE, Machine
from extender_service.serving.process_end import set_signal_handler
from extender_service.serving.watchdog import watchdog

log = logging.getLogger(__name__)

# How long the writes under way may take after SIGTERM, then what follows from their answers, and then the events.
# Meanwhile no other replica leads.
_GRACE_SECONDS = 10.0
_AFTERMATH_SECONDS = 0.1
_EVENTS_SECONDS = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def schedule(options: ScheduleOptions) -> int:
    """Run the scheduler until SIGTERM or SIGINT. Returns the exit status: 1 if the leader lease was lost.

    Raises StartError.
    """
    configure_logging(options.log_level, options.log_format)
    if options.write_config_to is not None:
        setup = Setup(options.config, options.plugins, rules=options.emulation.rules(), change=_change(options))
        _write_config(setup, options.write_config_to)
        return 0
    machine = replace(THIS_MACHINE, memory_settled=begin_to_use_huge_pages, set_signal_handler=set_signal_handler)
    status = 0
    try:
        with returning_free_memory():
            uvloop.run(run_scheduler(options, machine))
    except* LeaseLostError:
        log.error("ending, as the leader lease is lost")  # noqa: TRY400 - the reason is logged already
        status = 1
    return status


def _write_config(setup: Setup, file: Path) -> None:
    try:
        file.write_text(dump_config(setup.config))
    except OSError as error:
        raise StartError(f"--write-config-to: {file}: {error.strerror}") from error


async def run_scheduler(options: ScheduleOptions, machine: Machine = THIS_MACHINE) -> None:
    """Run the scheduler in this event loop until SIGTERM or SIGINT.

    Raises StartError, and an ExceptionGroup with LeaseLostError.
    """
    change = _change(options)
    some = setup_of_some_release(options.emulation, options.config, options.plugins, change)
    credentials = _credentials(options, some.config, machine)
    with SecureListener(options, machine) if options.serving.port else nullcontext() as listener:
        answering_probes = partial(_answering_at_start, listener)
        rules = await rules_for_server(options.emulation, credentials, answering_probes, machine)
        if rules is not None:
            setup = Setup(options.config, options.plugins, rules=rules, change=change)
            await _schedule_with(options, setup, credentials, listener, machine)


def _change(options: ScheduleOptions) -> Change:
    """Return what the command line changes in a configuration."""
    return partial(options.flags.change, has_file=options.config is not None)


@asynccontextmanager
async def _answering_at_start(listener: SecureListener | None, health: Health) -> AsyncIterator[None]:
    async with nullcontext() if listener is None else listener.serving(health_routes(health)):
        yield


async def _schedule_with(
    options: ScheduleOptions,
    setup: Setup,
    credentials: Credentials,
    listener: SecureListener | None,
    machine: Machine,
) -> None:
    for option in options.without_effect:
        log.warning("an option has no effect", extra={"option": option})
    names = [profile.scheduler_name for profile in setup.config.profiles]
    election = setup.config.leader_election

    # Three clients, each with a rate of its own: nothing else holds up the lease, and no binding waits for an event.
    def client_of_its_own(refuse_writes: RefuseWrites | None = None) -> KubeClient:
        limit = setup.client_limit(machine.clock)
        return KubeClient(credentials, limit=limit, refuse_writes=refuse_writes, clock=machine.clock)

    lease_client = client_of_its_own()
    candidacy = Candidacy(election if election.leader_elect else None, lease_client, names[0], machine)
    client = client_of_its_own(candidacy.write_problem)
    events_client = client_of_its_own(candidacy.write_problem)
    extenders = setup.config.extenders
    async with lease_client, client, events_client, AsyncExitStack() as connections:
        facts = {"api_server": credentials.server, "profiles": ",".join(names), "emulated_version": setup.rules.release}
        log.info("starting", extra=facts)
        cluster = Cluster(setup.rules)
        api_server = ApiServer(
            cluster,
            client,
            setup.reads,
            pods=pods_by_need(names, keeps_json=bool(extenders)),
            nodes=NODES if all(extender.node_cache_capable for extender in extenders) else NODES_WITH_JSON,
            clock=machine.clock,
            wall_clock=machine.wall_clock,
            random=machine.random,
        )
        clients = [
            ExtenderClient(
                extender, await connections.enter_async_context(to_it), cluster.nodes, api_server.get_pod_json
            )
            for extender, to_it in zip(extenders, _posts(extenders), strict=True)
        ]
        events = EventRecorder(events_client, names[0], machine=machine)
        asked = Extenders(clients, setup.rules)
        program = _Program(options, setup, cluster, client, api_server, events, candidacy, listener, asked, machine)
        with watchdog(options.watchdog_seconds):
            await program.run()
    log.info("stopped")


def _credentials(options: ScheduleOptions, config: KubeSchedulerConfiguration, machine: Machine) -> Credentials:
    """Return how to reach the API server, which a configuration says in the same way in all releases."""
    kubeconfig = config.client_connection.kubeconfig
    try:
        file = Path(kubeconfig) if kubeconfig else None
        return load_credentials(file, options.master, wall_clock=machine.wall_clock)
    except CredentialsError as error:
        raise StartError(str(error)) from error


class _Program:
    """A scheduler, and what runs with it."""

    def __init__(
        self,
        options: ScheduleOptions,
        setup: Setup,
        cluster: Cluster,
        client: KubeClient,
        api_server: ApiServer,
        events: EventRecorder,
        candidacy: Candidacy,
        listener: SecureListener | None,
        extenders: Extenders,
        machine: Machine,
    ) -> None:
        self._setup = setup
        self._clock = machine.clock
        self._machine = machine
        self._client = client
        self._extenders = extenders
        self._cluster = cluster
        self._api_server = api_server
        self._events = events
        self._candidacy = candidacy
        self._metrics = MetricsRegistry(
            version("extender-service"),
            cluster,
            api_server.states,
            events=events.counts,
            refusals={} if listener is None else listener.refusals,
            clock=machine.clock,
        )
        registry = self._metrics.prometheus
        self._queue, self._scheduler, handlers, engine, self._resources = _scheduler(
            options,
            setup,
            cluster,
            api_server,
            events,
            candidacy,
            SchedulerMetrics(registry, machine.clock, setup.rules),
            self._metrics.framework,
            extenders,
            machine,
        )
        elector = candidacy.elector
        slow_paths = None if elector is None else lambda: elector.slow_paths
        state = SchedulerState(
            self._queue.pending_counts,
            self._queue.in_flight_counts,
            engine.binder.__len__,
            lambda: candidacy.is_leading,
            slow_paths,
            setup.rules,
        )
        registry.register(state)
        self._metrics.show_not_judged(engine.unsupported.counts)
        api_server.handle_with(handlers.handler)
        self._listener = listener
        self._delays_cache = setup.config.delay_cache_until_active and elector is not None
        self._is_synced = False
        election = {} if elector is None else {"leaderElection": elector.health_problem}
        self._health = Health(
            {**election, "sched-handler-sync": self._sync_problem, **release_check(setup.rules.release)},
            election,
            not_judged=engine.unsupported.counts.keys,
        )
        self._stop = asyncio.Event()
        self._following: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Schedule until SIGTERM or SIGINT. Raises an ExceptionGroup with LeaseLostError."""
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.add_signal_handler(each, self._end)
        async with self._serving(), asyncio.TaskGroup() as tasks:
            recording = tasks.create_task(self._events.run())
            if await _unless(self._stop, self._get_ready(tasks)):
                await self._candidacy.lead(self._work(tasks))
            for task in (recording, *self._following):
                task.cancel()

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        if self._listener is None:
            yield
            return
        routes = [
            *operations_routes(self._health, self._metrics.recent_exposition, SliMetrics()),
            resource_route(self._resources.exposition, lambda: self._candidacy.is_leading),
            configuration_route(self._setup.config),
        ]
        async with self._listener.serving(routes):
            yield

    def _sync_problem(self) -> str | None:
        return None if self._is_synced else "waiting for handlers to sync"

    def _end(self) -> None:
        loop = asyncio.get_running_loop()
        for each in _SIGNALS:
            loop.remove_signal_handler(each)
        self._machine.set_signal_handler(signal.SIGTERM, signal.SIG_DFL)  # a second one ends the process at once
        self._health.drain()
        self._stop.set()
        self._queue.close()

    async def _get_ready(self, tasks: asyncio.TaskGroup) -> None:
        """Wait for the caches, unless only the leader has them, and then for the lead."""
        if not self._delays_cache:
            await self._follow(tasks)
        await self._candidacy.acquire()

    async def _follow(self, tasks: asyncio.TaskGroup) -> None:
        checks = watch_checks(self._api_server.states, clock=self._clock)
        for work in (
            self._api_server.follow(),
            log_sync(self._cluster, self._api_server, checks, self._machine),
            debug_on_signal(self._cluster, self._api_server, lambda: queue_dump(self._queue, self._clock())),
        ):
            self._following.append(tasks.create_task(work))
        await self._api_server.wait_synced()
        self._is_synced = True

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        try:
            await _unless(self._stop, self._schedule(tasks))
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS):
                    await self._client.finish_writes()
            # Thousands of others may wait for their turn. What extenders bind, the client does not know.
            with suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS if self._extenders else _AFTERMATH_SECONDS):
                    await self._scheduler.finish_writes()
            await self._events.drain(_EVENTS_SECONDS)
        finally:
            await self._scheduler.abandon()

    async def _schedule(self, tasks: asyncio.TaskGroup) -> None:
        """Schedule until the queue is closed. The first lists may take long, and so may extenders."""
        if self._delays_cache:
            await self._follow(tasks)
        await self._scheduler.run()


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


def _scheduler(
    options: ScheduleOptions,
    setup: Setup,
    cluster: Cluster,
    api_server: ApiServer,
    events: EventRecorder,
    candidacy: Candidacy,
    metrics: SchedulerMetrics,
    recorder: Recorder,
    extenders: Extenders,
    machine: Machine,
) -> tuple[SchedulingQueue, Scheduler, EventHandlers, Engine, PodResourceMetrics]:
    handle = Handle(cluster, api_server, clock=machine.clock, random=machine.random)
    by_name = setup.profiles(handle)
    for profile in by_name.values():
        profile.recorder = recorder
    profiles = Profiles(by_name)
    pending = PodLister()
    uses_hints = setup.rules.queueing_hints
    hints = {
        name: queueing_hints(profile.rejecting, setup.rules, with_extenders=bool(extenders), timing=metrics.hint_timing)
        for name, profile in by_name.items()
    }
    queue = SchedulingQueue(
        by_name,
        hints,
        setup.rules,
        clock=machine.clock,
        metrics=metrics,
        is_pending=pending.__contains__,
        namespace_labels=cluster.workloads.namespace_labels,
        backoff=PodBackoff(setup.config.pod_initial_backoff_seconds, setup.config.pod_max_backoff_seconds),
        max_in_unschedulable_seconds=options.max_in_unschedulable_seconds,
    )
    handle.activate_with(queue.activate)
    engine = Engine(
        cluster,
        profiles,
        api_server,
        may_bind=candidacy.require_lead,
        nominated_for=nominations(cluster, queue),
        bind_elsewhere=extenders.bind if extenders else None,
    )
    wanted = percentages(setup.config)
    sampling = (
        None
        if wanted is None
        else NodeSampling(
            NodeOrder(cluster.nodes),
            wanted,
            extenders_filter=extenders.filter_any,
            extenders_score=extenders.score_any,
        )
    )
    plugin_seconds = decision_seconds(options.decision_seconds, setup.config.leader_election, options.watchdog_seconds)
    limit = TimeLimit(machine.clock, plugin_seconds)
    scheduler = Scheduler(
        SchedulingCycle(engine, limit, sampling, extenders, metrics),
        engine,
        queue,
        pending,
        api_server,
        events.record,
        handle.preemptions,
        sleep=asyncio.sleep,
        wall_clock=machine.wall_clock,
        metrics=metrics,
        held_back_seconds=api_server.held_back_seconds,
    )
    api_server.also_read(storage_kinds(hints.values()))
    for kind, plugins in registered_kinds(hints.values()).items():
        log.info("watching a kind for plugins", extra={"kind": kind, "plugins": ",".join(sorted(plugins))})
        resource = any_kind(kind, keeps_json=uses_hints)
        store = RegisteredKind(kind, queue, setup.rules, metrics.event_timing, keeps_json=uses_hints)
        api_server.also_watch(kind, resource, store)
    resources = PodResourceMetrics(cluster, pending.__contains__)
    handlers = EventHandlers(
        cluster,
        queue,
        profiles,
        pending,
        order=None if sampling is None else sampling.order,
        resources=resources,
        timing=metrics.event_timing,
    )
    return queue, scheduler, handlers, engine, resources


def _posts(extenders: Sequence[Extender]) -> list[Posts]:
    try:
        return [posts_to(extender, f"extenders[{index}]") for index, extender in enumerate(extenders)]
    except CredentialsError as error:
        raise StartError(f"--config: {error}") from error

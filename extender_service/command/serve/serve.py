"""Builds the service from its options, and runs it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import uvloop

from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.sources.binding_right import BindingRight
from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.sources.object_api import ObjectApi
from extender_service.cluster.state.cluster import Cluster
from extender_service.command.background import background, debug_on_signal, log_sync
from extender_service.command.event_loop import new_event_loop
from extender_service.command.memory.free_memory import returning_free_memory
from extender_service.command.memory.huge_pages import begin_to_use_huge_pages
from extender_service.command.memory.settled_memory import settle_memory
from extender_service.command.serve.config_warnings import warn_of_fields, warn_of_missing_filters
from extender_service.command.serve.listeners import Listeners
from extender_service.command.serve.probes import answering_at_start, answering_probes
from extender_service.command.serve.serve_options import ServeOptions
from extender_service.command.serve.welcome import welcome
from extender_service.command.server_release import rules_for_server, warn_of_upgrade
from extender_service.command.setup import Setup, setup_of_some_release
from extender_service.command.start_error import StartError
from extender_service.command.unused_options import log_unused
from extender_service.config.rules import Rules
from extender_service.extender.app import create_app
from extender_service.extender.asking_again import Touch
from extender_service.extender.binding_events import discard
from extender_service.extender.leadership import Leadership
from extender_service.extender.overload.overload import Load
from extender_service.extender.preemption import PreemptionWork
from extender_service.extender.reporting.observer import CallObserver
from extender_service.extender.service import ExtenderService
from extender_service.extender.trust import Trust
from extender_service.framework.handle import Handle
from extender_service.framework.profiles import Profiles
from extender_service.kube.connection.client import MOST_REQUESTS, KubeClient
from extender_service.kube.connection.rate_limit import REQUESTS_AT_ONCE, REQUESTS_PER_SECOND, TokenBucket
from extender_service.kube.connection.sent_requests import SentRequests
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import Credentials, load_credentials
from extender_service.kube.parsing.manifests import ManifestError
from extender_service.kube.resources.api_resources import WATCHED_PODS
from extender_service.kube.reviews.access_reviews import may_bind_pods
from extender_service.kube.watching.watch_state import WatchState
from extender_service.kube.writing.event_recorder import EventRecorder
from extender_service.kube.writing.leases import lease_holder
from extender_service.observability.health import Check, Health, release_check, trust_check, watch_checks
from extender_service.observability.logs import configure_logging
from extender_service.observability.metrics_registry import MetricsRegistry
from extender_service.observability.operations import operations_routes
from extender_service.observability.preemption_metrics import PreemptionMetrics
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.eviction import Evictions
from extender_service.scheduling.pod_writes import PodWrites
from extender_service.seams import THIS_MACHINE, Machine
from extender_service.serving import open_files
from extender_service.serving.connection_limits import ConnectionLimits
from extender_service.serving.graceful_server import GracefulServer
from extender_service.serving.limited_server import server_config
from extender_service.serving.process_end import set_signal_handler
from extender_service.serving.shutdown import Shutdown
from extender_service.serving.watchdog import watchdog

log = logging.getLogger(__name__)

# Open files that are not clients' connections: logs, watches, certificates.
RESERVED_FILES = 300


def serve(options: ServeOptions) -> None:
    """Run the service until SIGTERM or SIGINT. Raises StartError."""
    configure_logging(options.log_level, options.log_format)
    machine = replace(THIS_MACHINE, memory_settled=begin_to_use_huge_pages, set_signal_handler=set_signal_handler)
    with returning_free_memory():
        uvloop.run(run_service(options, machine), loop_factory=new_event_loop)


_Work = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True)
class _Source:
    """The source of the cluster's objects and the target of bindings: an API server or files.

    `work` are the tasks that run with it, `checks` are for readiness, besides those of the watches. `sent` counts the
    requests to the API server. `events` is None without one. `touch` has kube-scheduler ask again about a pod; None if
    it is not to.
    """

    api: ObjectApi | ClusterFile
    work: Sequence[_Work]
    watches: Mapping[str, WatchState] = field(default_factory=dict)
    checks: Mapping[str, Check] = field(default_factory=dict)
    sent: SentRequests = field(default_factory=SentRequests)
    leadership: Leadership | None = None
    events: EventRecorder | None = None
    touch: Touch | None = None

    @property
    def is_live(self) -> bool:
        """Whether the source is an API server, which confirms placements with a watch event."""
        return self.events is not None

    def pods_version(self) -> str:
        """Return the resource version of the last pod that the watch has shown; empty if there is no watch."""
        state = self.watches.get(WATCHED_PODS.plural)
        return "" if state is None else state.last_resource_version


async def run_service(options: ServeOptions, machine: Machine = THIS_MACHINE) -> None:
    """Run the service in this event loop until SIGTERM or SIGINT. Raises StartError."""
    _require_preemption_possible(options)
    log_unused(options.without_effect)
    setup_of_some_release(options.emulation, options.config, options.plugins)
    with Listeners(options, machine) as listeners:
        delay_seconds = _delay_seconds(options, listeners)
        shutdown = Shutdown(delay_seconds, options.shutdown_grace_seconds, machine.clock, machine.set_signal_handler)
        is_file = bool(options.cluster_files)
        rules = options.emulation.rules() if is_file else await _rules_for_server(options, listeners, machine)
        if rules is None:
            return
        with options.emulation.naming_release(rules.release):
            setup = Setup(options.config, options.plugins, rules=rules)
        cluster = Cluster(setup.rules)
        if is_file:
            opened = _files(options, cluster, setup, listeners)
        else:
            opened = _api_server(options, cluster, setup, machine)
        async with opened as source:
            await _serve_from(source, options, cluster, setup, listeners, shutdown, machine)


def _require_preemption_possible(options: ServeOptions) -> None:
    """Raise StartError if the options do not let the service preempt, as they ask."""
    if options.preemption != "service":
        return
    if options.mode != "replace":
        raise StartError("--preemption=service needs --mode=replace: beside, kube-scheduler's own plugins preempt")
    if options.cluster_files:
        raise StartError("--preemption=service needs an API server: no pods are evicted in a --cluster-file")
    if not options.ask_again:
        raise StartError(
            "--preemption=service does not work with --ask-again=false: a pod whose preemption failed would wait until "
            "kube-scheduler tries all pods again. Leave --ask-again at true and grant the right to patch pods, or set "
            "--preemption=kube-scheduler"
        )


async def _rules_for_server(options: ServeOptions, listeners: Listeners, machine: Machine) -> Rules | None:
    credentials = _credentials(options, machine)
    log.info("listening", extra={**listeners.urls, "mode": options.mode, "api_server": credentials.shown_server})
    at_start = partial(answering_at_start, listeners, _within_open_files(options.connections))
    return await rules_for_server(options.emulation, credentials, at_start, machine)


def _delay_seconds(options: ServeOptions, listeners: Listeners) -> float:
    """Return the seconds to answer calls after SIGTERM. Raises StartError."""
    seconds = options.shutdown_delay_seconds
    if seconds is None:
        # A client on loopback has no other replica to call.
        seconds = 0.0 if listeners.is_loopback else min(5.0, options.shutdown_grace_seconds / 2)
    if seconds > options.shutdown_grace_seconds / 2:
        raise StartError(
            "--shutdown-delay-duration: the delay is a part of --shutdown-grace-period; give at most half as much, so "
            "that calls can finish"
        )
    return seconds


@asynccontextmanager
async def _files(options: ServeOptions, cluster: Cluster, setup: Setup, listeners: Listeners) -> AsyncIterator[_Source]:
    """Read the cluster files. Raises StartError."""
    cluster.show_only(setup.reads)  # as with an API server, though the files have all kinds
    files = ClusterFile(cluster, options.cluster_files)
    try:
        files.load()
    except ManifestError as error:
        raise StartError(str(error)) from error
    counts = {"nodes": cluster.node_count, "pods": cluster.pod_count}
    log.info("listening", extra={**listeners.urls, **counts, "emulated_version": cluster.rules.release})
    text = welcome(listeners.url, files.nodes, files.pods, shows_certificate=options.client_ca_file is not None)
    print(text, flush=True)  # noqa: T201 - commands to try, for a user at a terminal
    yield _Source(files, [files.follow, partial(debug_on_signal, cluster, None)])


@asynccontextmanager
async def _api_server(
    options: ServeOptions, cluster: Cluster, setup: Setup, machine: Machine
) -> AsyncIterator[_Source]:
    """Connect to the API server until the context ends. Raises StartError."""
    credentials = _credentials(options, machine)
    clock = machine.clock
    log.info("following the cluster", extra={"emulated_version": cluster.rules.release})
    if options.mode == "beside" and options.config is None:
        log.warning(
            "without --config, the whole default profile runs beside kube-scheduler's own plugins, and refuses nodes "
            "based on slightly older state: enable only plugins that kube-scheduler lacks"
        )
    # Three clients: the lease must be read whatever else is under way, and no binding waits for an event.
    sent = SentRequests()
    lease_client = KubeClient(credentials, sent=sent, clock=clock)
    events_limit = TokenBucket(REQUESTS_PER_SECOND, REQUESTS_AT_ONCE, clock=clock)
    events_client = KubeClient(credentials, limit=events_limit, sent=sent, clock=clock)
    leadership = None
    if options.leader_lease is not None:
        read_holder = partial(lease_holder, lease_client, *options.leader_lease)
        leadership = Leadership(read_holder, machine.host_name(), clock=machine.boot_clock)
    client = KubeClient(
        credentials,
        most_requests=_most_requests(),
        limit=setup.service_limit(clock),
        refuse_writes=leadership.problem if leadership is not None else None,
        sent=sent,
        clock=clock,
    )
    async with lease_client, events_client, client:
        binding_right = None
        if options.mode == "replace":
            # A review is a POST, which the client of bindings does not send while another pair leads.
            binding_right = BindingRight(partial(may_bind_pods, events_client), cluster)
        api_server = ApiServer(
            cluster,
            client,
            setup.reads,
            binding_right=binding_right,
            stale_limit_seconds=options.stale_limit_seconds,
            clock=clock,
            random=machine.random,
        )
        objects = ObjectApi(client, binding_right, wall_clock=machine.wall_clock)
        checks = watch_checks(api_server.states, stale_limit_seconds=options.stale_limit_seconds, clock=clock)
        events = EventRecorder(events_client, "extender-service", machine=machine)
        work: list[_Work] = [
            api_server.follow,
            partial(log_sync, cluster, api_server, checks, machine),
            partial(warn_of_upgrade, options.emulation, cluster.rules.release, client),
            events.run,
            partial(debug_on_signal, cluster, api_server),
        ]
        rights = {} if binding_right is None else {"binding-right": binding_right.problem}
        touch = objects.touch_pod if options.ask_again else None
        yield _Source(objects, work, api_server.states, rights, sent, leadership, events, touch)
        log.info("stopped")


def _credentials(options: ServeOptions, machine: Machine) -> Credentials:
    try:
        return load_credentials(options.kubeconfig, options.master, like_kubectl=True, wall_clock=machine.wall_clock)
    except CredentialsError as error:
        raise StartError(str(error)) from error


async def _serve_from(
    source: _Source,
    options: ServeOptions,
    cluster: Cluster,
    setup: Setup,
    listeners: Listeners,
    shutdown: Shutdown,
    machine: Machine,
) -> None:
    """Answer calls about the cluster of a source, until SIGTERM. Raises StartError."""
    is_trusted = trust_check(source.watches, stale_limit_seconds=options.stale_limit_seconds, clock=machine.clock)
    trust = Trust(is_trusted, source.leadership)
    handle = Handle(cluster, source.api, clock=machine.clock, random=machine.random)
    profiles = Profiles(setup.profiles(handle))
    warn_of_fields(setup.config)
    if options.mode == "replace":
        warn_of_missing_filters(profiles)
    engine = Engine(cluster, profiles, source.api, may_bind=trust.require_lead)
    record = discard if source.events is None else source.events.record
    extender = ExtenderService(
        engine,
        mode=options.mode,
        is_live=source.is_live,
        trust=trust,
        record=record,
        pods_version=source.pods_version,
        clock=machine.clock,
    )
    load = Load(options.calls)
    work = [*source.work]
    asked_again: Mapping[str, int] = {}
    if source.touch is not None and isinstance(source.api, ObjectApi):
        asking_again = extender.asking_again(source.touch, source.api.held_back_seconds)
        asked_again = asking_again.counts
        work.append(partial(asking_again.run, lambda: not load.in_work))
    metrics = MetricsRegistry(
        version("extender-service"),
        cluster,
        source.watches,
        requests=source.sent.hosts,
        events={} if source.events is None else source.events.counts,
        refusals=listeners.refusals,
        decisions_ahead=engine.ahead.counts,
        asked_again=asked_again,
        own_tables=extender.expectations.table_sizes,
        clock=machine.clock,
    )
    metrics.show_not_judged(engine.unsupported.counts)
    if options.preemption == "service" and isinstance(source.api, ObjectApi):
        counts = PreemptionMetrics(metrics.prometheus, machine.clock, setup.rules)
        writes = PodWrites(source.api, asyncio.sleep, setup.rules)
        evictions = Evictions(
            engine,
            handle.preemptions,
            writes,
            record,
            machine.wall_clock,
            source.api.held_back_seconds,
        )
        extender.preempt_by(PreemptionWork(source.api, writes, evictions, counts))
    checks = watch_checks(source.watches, stale_limit_seconds=options.stale_limit_seconds, clock=machine.clock)
    health = Health(
        {**checks, **source.checks, **release_check(setup.rules.release)}, not_judged=engine.unsupported.counts.keys
    )
    if source.is_live:
        work.append(extender.expectations.keep_expiring)
    if source.leadership is not None:
        on_lost = partial(extender.give_up, "the lease has gone to another scheduler")
        work.append(partial(source.leadership.follow, on_lost))
    with shutdown.signals(health.drain):
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(each()) for each in work]
            await _answer(options, extender, load, metrics, health, listeners, shutdown, machine)
            if source.events is not None:
                await source.events.drain(shutdown.events_left)
            for task in running:
                task.cancel()


async def _answer(
    options: ServeOptions,
    extender: ExtenderService,
    load: Load,
    metrics: MetricsRegistry,
    health: Health,
    listeners: Listeners,
    shutdown: Shutdown,
    machine: Machine,
) -> None:
    """Answer calls until SIGTERM. Then finish the calls and bindings under way, or undo them."""
    for profile in extender.engine.profiles:
        profile.recorder = metrics.framework
    observe = CallObserver(metrics)
    app = create_app(extender, observe, load, wall_clock=machine.wall_clock)
    operations = operations_routes(health, observe.exposition)
    if listeners.probes is None:
        app.router.routes.extend(operations)
    context = None if listeners.certificates is None else listeners.certificates.context
    config = server_config(app, context)
    settle_memory(machine)
    limits = _within_open_files(options.connections)
    with ExitStack() as at_end, watchdog(options.watchdog_seconds):
        at_end.callback(observe.tell)
        async with background(listeners.follow()), answering_probes(listeners, operations, limits):
            connections = listeners.connections(limits)
            async with background(connections.watch()):
                server = GracefulServer(config, connections, listeners.guard(listeners.calls), shutdown)
                load.tasks = server.server_state.tasks
                await server.serve(sockets=[listeners.calls])
                await extender.close(shutdown.work_left)
                await server.hang_up()


def _most_requests() -> int:
    """Return how many requests to the API server may be under way: each needs an open file, and callers need most."""
    return max(10, min(MOST_REQUESTS, (open_files.raise_limit() - RESERVED_FILES) // 4))


def _within_open_files(limits: ConnectionLimits) -> ConnectionLimits:
    """Reduce the limit on connections, so that RESERVED_FILES of this process's open files remain for other uses."""
    files = open_files.raise_limit()
    most = files - RESERVED_FILES - _most_requests()
    if limits.connections > most:
        extra = {"connections": most, "open_files": files}
        log.warning("the limit on open files allows fewer connections than --max-connections", extra=extra)
    return replace(limits, connections=min(limits.connections, most))

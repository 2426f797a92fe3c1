"""Builds the parts of the service from its options, and runs them."""

import asyncio
import gc
import logging
import math
import signal
import socket
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.types import ASGIApp

from extender_service.cluster.debugging.comparison import compare
from extender_service.cluster.debugging.dump import dump
from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.sources.cluster_file import ClusterFile
from extender_service.cluster.state.cluster import Cluster
from extender_service.command.listeners import Listeners
from extender_service.command.options import ServeOptions
from extender_service.command.profiles import Setup, StartError
from extender_service.command.welcome import welcome
from extender_service.extender.app import create_app
from extender_service.extender.expectations import Expectations
from extender_service.extender.extender import Extender
from extender_service.extender.leadership import Leadership
from extender_service.extender.overload.overload import Load
from extender_service.extender.reporting.call_metrics import Metrics
from extender_service.extender.reporting.observer import CallObserver
from extender_service.extender.trust import Trust
from extender_service.framework.profiles import Profiles
from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.loading import load_credentials
from extender_service.kube.parsing.manifests import ManifestError
from extender_service.kube.writing.event_recorder import EventRecorder
from extender_service.kube.writing.leases import lease_holder
from extender_service.observability.health import Check, Health, first_problem, trust_check, watch_checks
from extender_service.observability.logs import configure_logging
from extender_service.observability.operations import operations_routes
from extender_service.scheduling.engine import Engine
from extender_service.serving import open_files
from extender_service.serving.connection_limits import ConnectionLimits
from extender_service.serving.graceful_server import GracefulServer
from extender_service.serving.limited_server import LimitedServer
from extender_service.serving.shutdown import Shutdown
from extender_service.serving.watchdog import watchdog

log = logging.getLogger(__name__)

# Connections to the port for probes, and open files that are no connections: logs, watches, certificates.
PROBE_CONNECTIONS = 100
RESERVED_FILES = 300
# How long answers to probes may take to finish once calls are finished.
PROBES_GRACE_SECONDS = 1
# When to give advice if the cluster still cannot be read.
ADVICE_SECONDS = 3.0
# How often expectations whose time is up are looked for when nobody calls.
EXPIRY_SECONDS = 1.0


def serve(options: ServeOptions) -> None:
    """Run the service until it is told to stop. Raises StartError."""
    configure_logging(options.log_level, options.log_format)
    # Until there is something to look at: by default this signal ends a process.
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    uvloop.run(_serve(options))


async def _serve(options: ServeOptions) -> None:
    cluster = Cluster()
    setup = Setup(options.config, options.plugins)
    with Listeners(options) as listeners:
        shutdown = Shutdown(_delay_seconds(options, listeners), options.shutdown_grace_seconds)
        if options.cluster_files:
            await _serve_files(options, cluster, setup, listeners, shutdown)
        else:
            await _serve_api_server(options, cluster, setup, listeners, shutdown)


def _delay_seconds(options: ServeOptions, listeners: Listeners) -> float:
    """How long to go on answering once told to stop. Raises StartError."""
    seconds = options.shutdown_delay_seconds
    if seconds is None:
        # Whoever calls over loopback has nobody else to turn to.
        seconds = 0.0 if listeners.is_loopback else min(5.0, options.shutdown_grace_seconds / 2)
    if seconds > options.shutdown_grace_seconds / 2:
        raise StartError(
            "--shutdown-delay-duration: it is a part of --shutdown-grace-period; give at most half as much, so that "
            "calls can finish"
        )
    return seconds


async def _serve_files(
    options: ServeOptions, cluster: Cluster, setup: Setup, listeners: Listeners, shutdown: Shutdown
) -> None:
    files = ClusterFile(cluster, options.cluster_files)
    try:
        files.load()
    except ManifestError as error:
        raise StartError(str(error)) from error
    log.info("listening", extra={**listeners.urls, "nodes": cluster.node_count, "pods": cluster.pod_count})
    text = welcome(listeners.url, files.nodes, files.pods, shows_certificate=options.client_ca_file is not None)
    print(text, flush=True)  # noqa: T201 - for whoever tries the service
    engine = Engine(cluster, Profiles(setup.profiles(cluster, files)), files)
    extender = Extender(engine, mode=options.mode, is_live=False)
    metrics = Metrics(version("extender-service"), cluster, {}, refusals=listeners.refusals)
    health = Health({})
    with shutdown.signals(health.drain):
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(files.follow()), tasks.create_task(_debug_on_signal(cluster, None))]
            await _answer(options, extender, metrics, health, listeners, shutdown)
            for task in background:
                task.cancel()


async def _serve_api_server(
    options: ServeOptions, cluster: Cluster, setup: Setup, listeners: Listeners, shutdown: Shutdown
) -> None:
    try:
        credentials = load_credentials(options.kubeconfig, options.master)
    except CredentialsError as error:
        raise StartError(str(error)) from error
    log.info("listening", extra={**listeners.urls, "mode": options.mode, "api_server": credentials.server})
    if options.mode == "beside" and options.config is None:
        log.warning(
            "without --config the whole default profile runs beside kube-scheduler's own plugins, and refuses nodes by "
            "a state that is a little older: enable only plugins that kube-scheduler lacks"
        )
    async with KubeClient(credentials) as client:
        api_server = ApiServer(cluster, client, setup.reads)
        watches = watch_checks(api_server.states, stale_limit_seconds=options.stale_limit_seconds)
        leadership = None
        if options.leader_lease is not None:
            leadership = Leadership(partial(lease_holder, client, *options.leader_lease), socket.gethostname())
        trust = Trust(trust_check(api_server.states, stale_limit_seconds=options.stale_limit_seconds), leadership)
        profiles = Profiles(setup.profiles(cluster, api_server))
        engine = Engine(cluster, profiles, api_server, may_bind=trust.require_lead)
        events = EventRecorder(client, "extender-service")
        extender = Extender(engine, mode=options.mode, is_live=True, trust=trust, record=events.record)
        metrics = Metrics(
            version("extender-service"),
            cluster,
            api_server.states,
            events.counts,
            listeners.refusals,
            engine.ahead.counts,
            extender.expectations.table_sizes,
        )
        health = Health(watches)
        with shutdown.signals(health.drain):
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(api_server.follow()),
                    tasks.create_task(_tell_when_synced(cluster, api_server, watches)),
                    tasks.create_task(events.run()),
                    tasks.create_task(_expire(extender.expectations)),
                    tasks.create_task(_debug_on_signal(cluster, api_server)),
                ]
                if leadership is not None:
                    on_lost = partial(extender.give_up, "the lease has gone to another scheduler")
                    background.append(tasks.create_task(leadership.follow(on_lost)))
                await _answer(options, extender, metrics, health, listeners, shutdown)
                await events.drain(shutdown.events_left)
                for task in background:
                    task.cancel()
        log.info("stopped")


async def _answer(
    options: ServeOptions,
    extender: Extender,
    metrics: Metrics,
    health: Health,
    listeners: Listeners,
    shutdown: Shutdown,
) -> None:
    """Answer until the service is told to stop; then finish the calls and bindings under way, or undo them."""
    for profile in extender.engine.profiles:
        profile.recorder = metrics.framework
    load = Load(options.calls)
    observe = CallObserver(metrics)
    app = create_app(extender, observe, load)
    operations = operations_routes(health, observe.exposition)
    if listeners.probes is None:
        app.router.routes.extend(operations)
    config = _server_config(app, options.connections)
    if listeners.certificates is not None:
        config.load()
        config.ssl = listeners.certificates.context
    _keep_from_garbage_collector()
    # The default suits programs that make far less at a time: here, nearly all is freed as soon as nobody refers to it.
    gc.set_threshold(50_000, 10, 10)
    limits = _within_open_files(options.connections)
    with ExitStack() as at_end, watchdog(options.watchdog_seconds):
        at_end.callback(observe.tell)
        async with _background(listeners.follow()), _answering_probes(listeners, Starlette(routes=operations), limits):
            connections = listeners.connections(limits)
            async with _background(connections.watch()):
                server = GracefulServer(config, connections, shutdown)
                load.tasks = server.server_state.tasks
                await server.serve(sockets=[listeners.calls])
                await extender.close(shutdown.work_left)
                await server.hang_up()


@asynccontextmanager
async def _answering_probes(listeners: Listeners, app: ASGIApp, limits: ConnectionLimits) -> AsyncIterator[None]:
    """Answer on the port for probes, if there is one, for as long as the context lasts."""
    if listeners.probes is None:
        yield
        return
    connections = listeners.connections(replace(limits, connections=PROBE_CONNECTIONS))
    async with asyncio.TaskGroup() as tasks, _background(connections.watch()):
        server = _ProbeServer(_server_config(app, limits), connections)
        tasks.create_task(server.serve(sockets=[listeners.probes]))
        yield
        server.should_exit = True


@asynccontextmanager
async def _background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something without end for as long as the context lasts."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        yield
        task.cancel()


def _within_open_files(limits: ConnectionLimits) -> ConnectionLimits:
    """Leave enough of the files that this process may open for all but connections."""
    files = open_files.raise_limit()
    most = files - RESERVED_FILES
    if limits.connections > most:
        extra = {"connections": most, "open_files": files}
        log.warning("there may be fewer connections than --max-connections, since open files are limited", extra=extra)
    return replace(limits, connections=min(limits.connections, most))


def _server_config(app: ASGIApp, limits: ConnectionLimits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        proxy_headers=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=math.ceil(limits.idle_seconds),
        timeout_graceful_shutdown=PROBES_GRACE_SECONDS,
    )


class _ProbeServer(LimitedServer):
    """Leaves signals to the server that answers calls, and ends after it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def _tell_when_synced(cluster: Cluster, api_server: ApiServer, watches: Mapping[str, Check]) -> None:
    synced = asyncio.create_task(api_server.wait_synced())
    if not (await asyncio.wait([synced], timeout=ADVICE_SECONDS))[0]:
        log.warning(
            "not ready, and calls are answered with an error until the cluster can be read: check that the API server "
            "runs, that --kubeconfig or --master names it, and that its user may list and watch nodes and pods",
            extra={"problem": first_problem(watches)},
        )
    await synced
    _keep_from_garbage_collector()
    log.info("synced", extra={"nodes": cluster.node_count, "pods": cluster.pod_count})


def _keep_from_garbage_collector() -> None:
    """Keep the garbage collector from looking again and again at what is there now, and stays."""
    # Not all generations: that takes 50 ms once 150,000 pods are known, for the little that was dropped among them.
    gc.collect(1)
    gc.freeze()


async def _expire(expectations: Expectations) -> None:
    while True:
        await asyncio.sleep(EXPIRY_SECONDS)
        expectations.expire()


async def _debug_on_signal(cluster: Cluster, api_server: ApiServer | None) -> None:
    """On SIGUSR2, log how the cluster differs from what the API server lists, and a dump."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, asked.set)
    while True:
        await asked.wait()
        asked.clear()
        if api_server is not None:
            await _log_differences(cluster, api_server)
        for line in dump(cluster):
            log.info("dump: %s", line)


async def _log_differences(cluster: Cluster, api_server: ApiServer) -> None:
    try:
        differences = compare(cluster, await api_server.list_cluster())
    except (KubeError, CredentialsError) as error:
        log.warning("cannot compare the cache with the API server: %s", error)
        return
    log.info("compared the cache with the API server", extra={"differences": len(differences.lines())})
    for line in differences.lines():
        log.warning("the cache differs: %s", line)

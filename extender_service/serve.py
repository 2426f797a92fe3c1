"""Builds the parts of the service from its options, and runs them."""

import asyncio
import errno
import gc
import logging
import signal
import socket
from collections.abc import Mapping
from importlib.metadata import version
from types import FrameType

import uvicorn
import uvloop

from extender_service.cluster.api_server import ApiServer
from extender_service.cluster.cluster import Cluster
from extender_service.cluster.cluster_file import ClusterFile
from extender_service.cluster.debugger import compare, dump
from extender_service.extender.app import create_app
from extender_service.extender.bind import Binder
from extender_service.extender.service import ExtenderService
from extender_service.kube.api_errors import KubeError
from extender_service.kube.client import KubeClient
from extender_service.kube.credentials import load_credentials
from extender_service.kube.credentials_error import CredentialsError
from extender_service.kube.events import EventRecorder
from extender_service.kube.manifests import ManifestError
from extender_service.observability.health import Check, Health, first_problem, watch_checks
from extender_service.observability.logs import configure_logging
from extender_service.observability.metrics import Metrics
from extender_service.observability.observer import observer
from extender_service.observability.operations import operations_routes
from extender_service.options import ServeOptions
from extender_service.startup import Setup, StartError
from extender_service.welcome import welcome
from extender_service.whole_answers import WholeAnswers

log = logging.getLogger(__name__)

# Go's client keeps idle connections for 90 s: whoever closes first can lose a request, so it must not be us.
KEEP_ALIVE_SECONDS = 130
# How long calls and bindings under way may take to finish once the service is told to stop.
GRACE_SECONDS = 20
# How long events about them may take to be written after that.
EVENTS_GRACE_SECONDS = 3
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
    with _listen(options) as listener:
        url = f"http://{_host(options)}:{listener.getsockname()[1]}"
        if options.cluster_files:
            await _serve_files(options, cluster, setup, listener, url)
        else:
            await _serve_api_server(options, cluster, setup, listener, url)


async def _serve_files(
    options: ServeOptions, cluster: Cluster, setup: Setup, listener: socket.socket, url: str
) -> None:
    files = ClusterFile(cluster, options.cluster_files)
    try:
        files.load()
    except ManifestError as error:
        raise StartError(str(error)) from error
    log.info("listening", extra={"url": url, "nodes": cluster.node_count, "pods": cluster.pod_count})
    print(welcome(url, files.nodes, files.pods), flush=True)  # noqa: T201 - for whoever tries the service
    service = ExtenderService(cluster, setup.profiles(cluster, files), mode=options.mode, is_live=False)
    binder = Binder(service, files)
    metrics = Metrics(version("extender-service"), cluster, {})
    async with asyncio.TaskGroup() as tasks:
        background = [tasks.create_task(files.follow()), tasks.create_task(_debug_on_signal(cluster, None))]
        await _answer(service, binder, metrics, Health({}), listener)
        for task in background:
            task.cancel()


async def _serve_api_server(
    options: ServeOptions, cluster: Cluster, setup: Setup, listener: socket.socket, url: str
) -> None:
    try:
        credentials = load_credentials(options.kubeconfig, options.master)
    except CredentialsError as error:
        raise StartError(str(error)) from error
    log.info("listening", extra={"url": url, "mode": options.mode, "api_server": credentials.server})
    if options.mode == "beside" and options.config is None:
        log.warning(
            "without --config the whole default profile runs beside kube-scheduler's own plugins, and refuses nodes by "
            "a state that is a little older: enable only plugins that kube-scheduler lacks"
        )
    async with KubeClient(credentials) as client:
        api_server = ApiServer(cluster, client, setup.reads)
        watches = watch_checks(api_server.states)
        service = ExtenderService(
            cluster,
            setup.profiles(cluster, api_server),
            mode=options.mode,
            is_live=True,
            distrust=lambda: first_problem(watches),
        )
        events = EventRecorder(client, "extender-service")
        binder = Binder(service, api_server, record=events.record)
        metrics = Metrics(version("extender-service"), cluster, api_server.states, events.counts)
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(api_server.follow()),
                tasks.create_task(_tell_when_synced(cluster, api_server, watches)),
                tasks.create_task(events.run()),
                tasks.create_task(_expire(cluster)),
                tasks.create_task(_debug_on_signal(cluster, api_server)),
            ]
            await _answer(service, binder, metrics, Health(watches), listener)
            await events.drain(EVENTS_GRACE_SECONDS)
            for task in background:
                task.cancel()


async def _answer(
    service: ExtenderService, binder: Binder, metrics: Metrics, health: Health, listener: socket.socket
) -> None:
    """Answer until SIGTERM or SIGINT; then finish the calls and bindings under way."""
    for profile in service.profiles.values():
        profile.recorder = metrics.framework
    app = create_app(service, binder, observer(metrics))
    app.router.routes.extend(operations_routes(health, metrics))
    server = _Server(
        uvicorn.Config(
            app,
            http=WholeAnswers,
            proxy_headers=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
        ),
        health,
    )
    _keep_from_garbage_collector()
    # The default suits programs that make far less at a time: here, nearly all is freed as soon as nobody refers to it.
    gc.set_threshold(50_000, 10, 10)
    await server.serve(sockets=[listener])
    await binder.close(GRACE_SECONDS)


class _Server(uvicorn.Server):
    """Is not ready any more from the moment that it is told to stop."""

    def __init__(self, config: uvicorn.Config, health: Health) -> None:
        super().__init__(config)
        self._health = health

    def handle_exit(self, sig: int, _frame: FrameType | None) -> None:
        # uvicorn's own raises the signal again in the end, which kills us before bindings under way are finished.
        self._health.draining = True
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def _listen(options: ServeOptions) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.bind_address else socket.AF_INET
    try:
        return socket.create_server((options.bind_address, options.port), family=family, backlog=1024)
    except OSError as error:
        where = f"{_host(options)}:{options.port}"
        if error.errno == errno.EADDRINUSE:
            raise StartError(
                f"--port: {where} is in use by another program; give another port, or 0 for any"
            ) from error
        reason = (error.strerror or str(error)).partition(" (while attempting")[0]
        raise StartError(
            f"--bind-address, --port: cannot listen on {where}: {reason}; give an address of this machine, "
            "0.0.0.0 or :: for all, and a port that this user may open"
        ) from error


def _host(options: ServeOptions) -> str:
    return f"[{options.bind_address}]" if ":" in options.bind_address else options.bind_address


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
    gc.collect()
    gc.freeze()


async def _expire(cluster: Cluster) -> None:
    while True:
        await asyncio.sleep(EXPIRY_SECONDS)
        cluster.expire()


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

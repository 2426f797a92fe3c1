"""Builds the scheduler from its options, and runs it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import uvloop

from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.sources.object_api import ObjectApi
from extender_service.cluster.state.cluster import Cluster
from extender_service.command.event_loop import new_event_loop
from extender_service.command.memory.free_memory import returning_free_memory
from extender_service.command.memory.huge_pages import begin_to_use_huge_pages
from extender_service.command.schedule.decision_time import decision_seconds
from extender_service.command.schedule.election import Candidacy, LeaseLostError
from extender_service.command.schedule.schedule_options import ScheduleOptions
from extender_service.command.schedule.scheduler_program import SchedulerProgram
from extender_service.command.schedule.secure_server import SecureListener
from extender_service.command.server_release import rules_for_server, warn_of_upgrade
from extender_service.command.setup import Setup, setup_of_some_release
from extender_service.command.start_error import StartError
from extender_service.command.unused_options import log_unused
from extender_service.config.dump import dump_config
from extender_service.config.loading import Change
from extender_service.config.types import Extender, KubeSchedulerConfiguration
from extender_service.framework.handle import Handle
from extender_service.kube.connection.client import KubeClient, RefuseWrites
from extender_service.kube.connection.posts import Posts
from extender_service.kube.connection.sent_requests import SentRequests
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.credentials.lookup import Credentials, load_credentials
from extender_service.kube.resources.any_kind import any_kind
from extender_service.kube.resources.api_resources import NODES
from extender_service.kube.resources.nodes_with_json import NODES_WITH_JSON
from extender_service.kube.resources.pods_by_need import pods_by_need
from extender_service.kube.writing.event_recorder import EventRecorder
from extender_service.observability.health import Health
from extender_service.observability.logs import configure_logging
from extender_service.observability.metrics_registry import MetricsRegistry
from extender_service.observability.operations import health_routes
from extender_service.scheduler.assembly import SchedulerParts, assemble
from extender_service.scheduler.event_handlers import storage_kinds
from extender_service.scheduler.extenders.access import posts_to
from extender_service.scheduler.extenders.extender_client import ExtenderClient
from extender_service.scheduler.extenders.extenders import Extenders
from extender_service.scheduler.metrics.event_timing import EventTiming
from extender_service.scheduler.metrics.pod_resources import PodResourceMetrics
from extender_service.scheduler.metrics.prometheus import SchedulerMetrics, SchedulerState
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduler.registered_kinds import RegisteredKind, registered_kinds
from extender_service.seams import THIS_MACHINE, Machine
from extender_service.serving.process_end import set_signal_handler
from extender_service.serving.watchdog import watchdog

log = logging.getLogger(__name__)


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
            uvloop.run(run_scheduler(options, machine), loop_factory=new_event_loop)
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
    sent = SentRequests()
    with SecureListener(options, machine, sent) if options.serving.port else nullcontext() as listener:
        answering_probes = partial(_answering_at_start, listener)
        rules = await rules_for_server(options.emulation, credentials, answering_probes, machine)
        if rules is not None:
            with options.emulation.naming_release(rules.release):
                setup = Setup(options.config, options.plugins, rules=rules, change=change)
            await _schedule_with(options, setup, credentials, sent, listener, machine)


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
    sent: SentRequests,
    listener: SecureListener | None,
    machine: Machine,
) -> None:
    log_unused(options.without_effect)
    names = [profile.scheduler_name for profile in setup.config.profiles]
    election = setup.config.leader_election

    # Three clients, each with a rate of its own: nothing else holds up the lease, and no binding waits for an event.
    def client_of_its_own(refuse_writes: RefuseWrites | None = None) -> KubeClient:
        limit = setup.scheduler_limit(machine.clock)
        return KubeClient(credentials, limit=limit, refuse_writes=refuse_writes, sent=sent, clock=machine.clock)

    lease_client = client_of_its_own()
    candidacy = Candidacy(election if election.leader_elect else None, lease_client, names[0], machine)
    client = client_of_its_own(candidacy.write_problem)
    events_client = client_of_its_own(candidacy.write_problem)
    async with lease_client, client, events_client, AsyncExitStack() as connections:
        facts = {
            "api_server": credentials.shown_server,
            "profiles": ",".join(names),
            "emulated_version": setup.rules.release,
        }
        log.info("starting", extra=facts)
        program = await _program(options, setup, client, events_client, candidacy, connections, sent, listener, machine)
        with watchdog(options.watchdog_seconds):
            await program.run()
    log.info("stopped")


async def _program(
    options: ScheduleOptions,
    setup: Setup,
    client: KubeClient,
    events_client: KubeClient,
    candidacy: Candidacy,
    connections: AsyncExitStack,
    sent: SentRequests,
    listener: SecureListener | None,
    machine: Machine,
) -> SchedulerProgram:
    """Make the parts, which reach extenders until `connections` end. Raises StartError."""
    cluster = Cluster(setup.rules)
    api_server = _api_server(setup, cluster, client, machine)
    objects = ObjectApi(client, wall_clock=machine.wall_clock)
    extenders = await _extenders(setup, cluster, objects, connections, machine)
    events = EventRecorder(events_client, setup.config.profiles[0].scheduler_name, machine=machine)
    registry = MetricsRegistry(
        version("extender-service"),
        cluster,
        api_server.states,
        requests=sent.hosts,
        events=events.counts,
        refusals={} if listener is None else listener.refusals,
        clock=machine.clock,
    )
    metrics = SchedulerMetrics(registry.prometheus, machine.clock, setup.rules)
    handle = Handle(cluster, objects, clock=machine.clock, random=machine.random)
    profiles = setup.profiles(handle)
    for profile in profiles.values():
        profile.recorder = registry.framework
    pending = PodLister()
    resources = PodResourceMetrics(cluster, pending.__contains__)
    election = setup.config.leader_election
    parts = assemble(
        setup.config,
        profiles,
        handle,
        objects,
        pending,
        events.record,
        sleep=asyncio.sleep,
        wall_clock=machine.wall_clock,
        metrics=metrics,
        resources=resources,
        extenders=extenders,
        may_bind=candidacy.require_lead,
        decision_seconds=decision_seconds(options.decision_seconds, election, options.watchdog_seconds),
        max_in_unschedulable_seconds=options.max_in_unschedulable_seconds,
        held_back_seconds=objects.held_back_seconds,
    )
    _watch_for_plugins(api_server, parts, metrics.event_timing)
    api_server.handle_with(parts.handlers.handler)
    _show_state(registry, parts, candidacy)
    return SchedulerProgram(
        setup.config,
        parts,
        api_server,
        client,
        extenders,
        events,
        candidacy,
        registry,
        resources,
        listener,
        machine,
        partial(warn_of_upgrade, options.emulation, setup.rules.release, client),
    )


def _api_server(setup: Setup, cluster: Cluster, client: KubeClient, machine: Machine) -> ApiServer:
    extenders = setup.config.extenders
    names = [profile.scheduler_name for profile in setup.config.profiles]
    return ApiServer(
        cluster,
        client,
        setup.reads,
        pods=pods_by_need(names, keeps_json=bool(extenders)),
        nodes=NODES if all(extender.node_cache_capable for extender in extenders) else NODES_WITH_JSON,
        clock=machine.clock,
        random=machine.random,
    )


async def _extenders(
    setup: Setup, cluster: Cluster, objects: ObjectApi, connections: AsyncExitStack, machine: Machine
) -> Extenders:
    """Return the extenders of the configuration, reached until `connections` end. Raises StartError."""
    configured = setup.config.extenders
    clients = [
        ExtenderClient(extender, await connections.enter_async_context(to_it), cluster.nodes, objects.get_pod_json)
        for extender, to_it in zip(configured, _posts(configured, machine), strict=True)
    ]
    return Extenders(clients, setup.rules)


def _posts(extenders: Sequence[Extender], machine: Machine) -> list[Posts]:
    try:
        return [
            posts_to(extender, f"extenders[{index}]", machine.wall_clock) for index, extender in enumerate(extenders)
        ]
    except CredentialsError as error:
        raise StartError(f"--config: {error}") from error


def _watch_for_plugins(api_server: ApiServer, parts: SchedulerParts, timing: EventTiming) -> None:
    """Watch also the kinds of objects that plugins registered, whether or not any plugin reads them."""
    rules, hints = parts.engine.cluster.rules, parts.hints.values()
    api_server.also_read(storage_kinds(hints))
    for kind, plugins in registered_kinds(hints).items():
        log.info("watching a kind for plugins", extra={"kind": kind, "plugins": ",".join(sorted(plugins))})
        resource = any_kind(kind, keeps_json=rules.queueing_hints)
        store = RegisteredKind(kind, parts.queue, rules, timing, keeps_json=rules.queueing_hints)
        api_server.also_watch(kind, resource, store)


def _show_state(registry: MetricsRegistry, parts: SchedulerParts, candidacy: Candidacy) -> None:
    """Show in the metrics what a scrape reads from the scheduler."""
    elector = candidacy.elector
    state = SchedulerState(
        parts.queue.pending_counts,
        parts.queue.in_flight_counts,
        parts.engine.binder.__len__,
        lambda: candidacy.is_leading,
        None if elector is None else lambda: elector.slow_paths,
        parts.engine.cluster.rules,
    )
    registry.prometheus.register(state)
    registry.show_not_judged(parts.engine.unsupported.counts)


def _credentials(options: ScheduleOptions, config: KubeSchedulerConfiguration, machine: Machine) -> Credentials:
    """Return how to reach the API server, which a configuration says in the same way in all releases.

    As in kube-scheduler, no file of the user's counts that is not named: it could be about any cluster.
    """
    kubeconfig = config.client_connection.kubeconfig
    try:
        file = Path(kubeconfig) if kubeconfig else None
        return load_credentials(file, options.master, wall_clock=machine.wall_clock)
    except CredentialsError as error:
        raise StartError(str(error)) from error

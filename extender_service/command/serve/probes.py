"""The server for probes: on a port of its own, which needs no client certificate, and at the start."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from extender_service.command.background import background
from extender_service.command.serve.listeners import Listeners
from extender_service.extender import trust
from extender_service.extender.wire.failures import VERBS, failure
from extender_service.observability.health import Health, first_problem
from extender_service.observability.operations import health_routes
from extender_service.serving.connection_limits import ConnectionLimits
from extender_service.serving.limited_server import LimitedServer, server_config

# Few programs connect: the kubelet and Prometheus.
PROBE_CONNECTIONS = 100


@asynccontextmanager
async def answering_probes(
    listeners: Listeners, routes: Sequence[BaseRoute], limits: ConnectionLimits
) -> AsyncIterator[None]:
    """Serve these routes on the port for probes, if there is one, until the context ends."""
    if listeners.probes is None:
        yield
        return
    async with _answering(listeners, listeners.probes, routes, replace(limits, connections=PROBE_CONNECTIONS)):
        yield


@asynccontextmanager
async def answering_at_start(listeners: Listeners, limits: ConnectionLimits, health: Health) -> AsyncIterator[None]:
    """Answer probes, and calls with an error that says what is not ready, until the context ends."""

    async def fail(request: Request) -> Response:
        problem = f"{trust.UNKNOWN_CLUSTER}: {first_problem(health.readiness)}"
        status, body = failure(request.url.path[1:], problem, 503)
        return Response(body, status, media_type="application/json")

    probes, verbs = health_routes(health), [Route(f"/{verb}", fail, methods=["POST"]) for verb in VERBS]
    if listeners.probes is None:
        verbs += probes
    async with (
        background(listeners.follow()),
        answering_probes(listeners, probes, limits),
        _answering(listeners, listeners.calls, verbs, limits),
    ):
        yield


@asynccontextmanager
async def _answering(
    listeners: Listeners, listener: socket.socket, routes: Sequence[BaseRoute], limits: ConnectionLimits
) -> AsyncIterator[None]:
    certificates = listeners.certificates if listener is listeners.calls else None
    config = server_config(Starlette(routes=routes), None if certificates is None else certificates.context)
    connections = listeners.connections(limits)
    async with asyncio.TaskGroup() as tasks, background(connections.watch()):
        server = LimitedServer(config, connections, listeners.guard(listener))
        # A server closes its socket when it ends, and this one may be needed once more.
        tasks.create_task(server.serve(sockets=[listener.dup()]))
        try:
            yield
        finally:
            server.should_exit = True

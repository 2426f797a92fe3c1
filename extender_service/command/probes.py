"""The server on the port for probes, which needs no client certificate."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import uvicorn

from extender_service.command.background import background
from extender_service.command.listeners import Listeners
from extender_service.serving.connection_limits import ConnectionLimits
from extender_service.serving.limited_server import LimitedServer

# Few programs connect: the kubelet and Prometheus.
PROBE_CONNECTIONS = 100


@asynccontextmanager
async def answering_probes(
    listeners: Listeners, config: uvicorn.Config, limits: ConnectionLimits
) -> AsyncIterator[None]:
    """Serve on the port for probes, if there is one, until the context ends."""
    if listeners.probes is None:
        yield
        return
    connections = listeners.connections(replace(limits, connections=PROBE_CONNECTIONS))
    async with asyncio.TaskGroup() as tasks, background(connections.watch()):
        server = _ProbeServer(config, connections, listeners.guard(listeners.probes))
        tasks.create_task(server.serve(sockets=[listeners.probes]))
        yield
        server.should_exit = True


class _ProbeServer(LimitedServer):
    """Does not handle signals: the server for calls does, and this one ends after it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

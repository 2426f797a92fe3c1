"""The port for probes, which answers without a client certificate."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace

import uvicorn

from extender_service.command.background import background
from extender_service.command.listeners import Listeners
from extender_service.serving.connection_limits import ConnectionLimits
from extender_service.serving.limited_server import LimitedServer

# Few programs ask: the kubelet, and what collects metrics.
PROBE_CONNECTIONS = 100


@asynccontextmanager
async def answering_probes(
    listeners: Listeners, config: uvicorn.Config, limits: ConnectionLimits
) -> AsyncIterator[None]:
    """Answer on the port for probes, if there is one, for as long as the context lasts."""
    if listeners.probes is None:
        yield
        return
    connections = listeners.connections(replace(limits, connections=PROBE_CONNECTIONS))
    async with asyncio.TaskGroup() as tasks, background(connections.watch()):
        server = _ProbeServer(config, connections)
        tasks.create_task(server.serve(sockets=[listeners.probes]))
        yield
        server.should_exit = True


class _ProbeServer(LimitedServer):
    """Leaves signals to the server that answers calls, and ends after it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

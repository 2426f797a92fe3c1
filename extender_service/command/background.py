"""Background tasks that both programs have: log the first sync, compare and dump on a signal."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

from extender_service.cluster.debugging.comparison import compare
from extender_service.cluster.debugging.state_dump import dump
from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.state.cluster import Cluster
from extender_service.command.memory.settled_memory import settle_memory
from extender_service.kube.api_errors import KubeError
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.observability.health import Check, first_problem
from extender_service.seams import Machine

log = logging.getLogger(__name__)

# If the first sync takes longer, log what to check.
ADVICE_SECONDS = 3.0


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run `work`, which does not end by itself, until the context ends. If it fails, the context fails."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work)
        yield
        task.cancel()


async def log_sync(cluster: Cluster, api_server: ApiServer, watches: Mapping[str, Check], machine: Machine) -> None:
    """Log the end of the first sync. If it takes longer than ADVICE_SECONDS, log what to check."""
    synced = asyncio.create_task(api_server.wait_synced())
    if not (await asyncio.wait([synced], timeout=ADVICE_SECONDS))[0]:
        log.warning(
            "not ready, and all calls fail, until the cluster can be read: check that the API server runs, that "
            "--kubeconfig or --master names it, and that its user may list and watch nodes and pods",
            extra={"problem": first_problem(watches)},
        )
    await synced
    settle_memory(machine)
    log.info("synced", extra={"nodes": cluster.node_count, "pods": cluster.pod_count})


async def debug_on_signal(
    cluster: Cluster, api_server: ApiServer | None, more: Callable[[], Iterable[str]] = tuple
) -> None:
    """On SIGUSR2, log the differences between the cache and the API server's lists, and a dump of the cache.

    `more` returns lines that are logged after the dump.
    """
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, asked.set)
    while True:
        await asked.wait()
        asked.clear()
        if api_server is not None:
            await _log_differences(cluster, api_server)
        for line in chain(dump(cluster), more()):
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

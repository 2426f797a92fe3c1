"""A cluster that an API server describes: lists and watches."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from extender_service.cluster.sources.binding_right import BindingRight
from extender_service.cluster.sources.stores import stores
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.connector import GONE_SECONDS
from extender_service.kube.resources.api_resources import NODES, PODS, WATCHED_PODS, Resource
from extender_service.kube.types.core import Object
from extender_service.kube.watching.reflector import Limits, Reflector
from extender_service.kube.watching.store import Store
from extender_service.kube.watching.watch_state import ServerWatches, WatchState
from extender_service.seams import RANDOM

log = logging.getLogger(__name__)

# Decisions must soon see what happens to nodes and pods: their watches show every ten seconds that they live, in turns.
# Those of the other kinds, which may be a dozen, only once a minute, by a bookmark where the API server sends any.
# While it is down, the other kinds are tried more rarely, too: once it answers one watch, all are tried.
_SOON = (NODES.plural, PODS.plural)
_SOON_SECONDS = 10
_LATER = Limits(watch_seconds=75, long_watch_seconds=600, late_seconds=10.0, wait_seconds=2.5)

# The caller waits for the comparison, and may ask for another one.
_MOST_SILENT_SECONDS = 6.0


class ApiServer:
    """Keeps a cluster equal to what the API server says: its nodes and pods, and the other kinds in `reads`.

    While all is well, no kind's state is older than `stale_limit_seconds`.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: KubeClient,
        reads: Collection[type[Object]] = (),
        *,
        pods: Resource[Any] = WATCHED_PODS,
        nodes: Resource[Any] = NODES,
        binding_right: BindingRight | None = None,
        stale_limit_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        random: Random = RANDOM,
    ) -> None:
        """`pods` and `nodes` decode these objects.

        `binding_right` is asked about once everything has been listed; None if pods are not bound here.
        """
        self._client = client
        self._binding_right = binding_right
        self._cluster = cluster
        self._pods = pods
        self._nodes = nodes
        self._reads: set[type[Object]] = set()
        self._stale_limit_seconds = stale_limit_seconds
        self._clock = clock
        self._random = random
        self._server = ServerWatches(clock)
        self._reflectors: dict[str, Reflector[Any]] = {}
        self._registered: dict[str, Reflector[Any]] = {}
        self._states: dict[str, WatchState] = {}
        cluster.show_only(reads)
        self.also_read(reads)

    @property
    def states(self) -> Mapping[str, WatchState]:
        """How far each resource can be trusted, by name."""
        return MappingProxyType(self._states)

    def also_read(self, kinds: Collection[type[Object]]) -> None:
        """Keep more kinds, besides those in `reads`. They wake pods; plugins see those in `reads` alone.

        To be called before `handle_with`.
        """
        self._reads |= set(kinds)
        for resource, store, field_selector in stores(self._cluster, self._reads, self._pods, self._nodes):
            if resource.plural not in self._reflectors:
                self._reflectors[resource.plural] = self._reflector(resource.plural, resource, store, field_selector)
        self._reflectors[self._pods.plural].on_listed = self._cluster.end_unlisted_placements

    def also_watch(self, name: str, resource: Resource[Any], store: Store[Any]) -> None:
        """Watch a kind on which nothing here depends: it is waited for only until the API server has answered once.

        `name` is plural.version.group. To be called before `follow`.
        """
        self._registered[name] = self._reflector(name, resource, store)

    def _reflector(
        self, name: str, resource: Resource[Any], store: Store[Any], field_selector: str = ""
    ) -> Reflector[Any]:
        reflector = Reflector(
            self._client,
            resource,
            store,
            field_selector=field_selector,
            limits=_limits(resource, self._stale_limit_seconds),
            server=self._server,
            clock=self._clock,
            random=self._random,
        )
        self._states[name] = reflector.state
        return reflector

    def handle_with(self, handler: Callable[[Resource[Any], Store[Any]], Store[Any]]) -> None:
        """Let each resource be taken in by what `handler` returns for its store, from before the first list on."""
        for reflector in self._reflectors.values():
            reflector.store = handler(reflector.resource, reflector.store)

    async def wait_synced(self) -> None:
        """Return once everything has been listed; of what is watched besides, what can be."""
        for reflector in self._reflectors.values():
            await reflector.wait_synced()
        for reflector in self._registered.values():
            await reflector.wait_tried()

    async def follow(self) -> None:
        """List and watch for as long as this runs; trouble is logged, shows in the states, and is tried again."""
        async with asyncio.TaskGroup() as tasks:
            for name, reflector in self._registered.items():
                tasks.create_task(_run(reflector))
                tasks.create_task(_report_failure(name, reflector))
            for reflector in self._reflectors.values():
                tasks.create_task(_run(reflector))
            if self._binding_right is not None:
                await self.wait_synced()
                await self._binding_right.follow()

    async def list_cluster(self) -> Cluster:
        """Return a cluster made from scratch of what the API server lists now. Raises KubeError, CredentialsError."""
        listed = Cluster(self._cluster.rules)
        for resource, store, field_selector in stores(listed, self._reads):
            async for page in self._client.list_pages(
                resource, field_selector=field_selector, silence_seconds=_MOST_SILENT_SECONDS
            ):
                for item in page.items:
                    store.apply(item)
        return listed


async def _run(reflector: Reflector[Any]) -> None:
    """Run a reflector until this task is cancelled. Raises what the store raises, CancelledError as a RuntimeError.

    A TaskGroup ignores a task that ends with CancelledError: the watch would be over, and all else would go on.
    """
    try:
        await reflector.run()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError(f"{reflector.resource.plural}: a change cannot be taken in") from error


async def _report_failure(name: str, reflector: Reflector[Any]) -> None:
    await reflector.wait_tried()
    if not reflector.state.synced:
        log.warning(
            "a kind of a plugin's retry_on cannot be listed, so its changes wake no pod; this is tried again every few "
            "seconds: check that the API server serves it, and that this program may list and watch it",
            extra={"kind": name, "problem": reflector.state.last_error},
        )


def _limits(resource: Resource[Any], stale_limit_seconds: float) -> Limits:
    seconds = min(_SOON_SECONDS, int(stale_limit_seconds / 3))
    if resource.plural in _SOON or stale_limit_seconds <= GONE_SECONDS:
        return Limits(watch_seconds=seconds, phase_seconds=0.0 if resource.plural == NODES.plural else seconds / 2)
    return _LATER

"""Actors that restart when etcd is restored: their caches may have objects that the backup does not have."""

from collections.abc import Callable, Sequence

from tests.worlds.actors.client import ActorClient
from tests.worlds.api_server.etcd import Etcd
from tests.worlds.simulation.served_model import ServedModel
from tests.worlds.simulation.world import World


class RestartingActor:
    """`begin` is called with a client at the start, and with another one after each restore.

    Kubernetes advises to restart whatever has caches then (Operating etcd clusters for Kubernetes, on restoring).
    """

    def __init__(
        self,
        world: World,
        servers: Sequence[ServedModel],
        etcd: Etcd,
        name: str,
        begin: Callable[[ActorClient], None],
    ) -> None:
        self._world = world
        self._servers = servers
        self._name = name
        self._begin = begin
        self._client: ActorClient | None = None
        self._starts = 0
        etcd.on_restore.append(self._restart)

    def start(self) -> None:
        """Begin."""
        self._starts += 1
        self._client = ActorClient(self._world, self._servers, self._name, self._starts)
        self._begin(self._client)

    def _restart(self) -> None:
        if self._client is not None:
            self._client.stop()
            self.start()

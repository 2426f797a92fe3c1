"""The machines of a cluster, each with a kubelet, and what happens to machines."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import Object
from tests.worlds.actors.kubelet import Kubelet
from tests.worlds.actors.routines import start
from tests.worlds.simulation.served_model import ServedModel
from tests.worlds.simulation.world import World

# A node that is deleted at the end of all troubles is gone by then.
_DELETION_SECONDS: Final = 2.0


class Machines:
    """Machines by the names of their nodes. A machine is there or gone; the Node object is the kubelet's matter."""

    def __init__(self, world: World, servers: Sequence[ServedModel], *, taints_first: bool) -> None:
        """`taints_first`: new nodes have the taint not-ready, which node lifecycle removes."""
        self._world = world
        self._servers = servers
        self._taints_first = taints_first
        self._nodes: dict[str, Object] = {}
        self._running: dict[str, Kubelet] = {}
        self._starts: dict[str, int] = {}
        self.on_start: list[Callable[[Kubelet], None]] = []  # called with each kubelet before it starts

    @property
    def names(self) -> list[str]:
        """The names of the machines that are there, whether or not their kubelet runs."""
        return [*self._nodes]

    def add(self, node: Object) -> None:
        """Add a machine, and start its kubelet, which registers this Node."""
        name = node["metadata"]["name"]
        assert name not in self._nodes, "it is there"
        self._nodes[name] = node
        self._world.trace.write(f"machine-{name}", "starts")
        self.start_kubelet(name)

    def remove(self, name: str) -> Object:
        """Let a machine be gone with all that runs on it; return the Node that it had registered."""
        self.stop_kubelet(name)
        self._world.trace.write(f"machine-{name}", "is gone")
        return self._nodes.pop(name)

    def start_kubelet(self, name: str) -> None:
        """Start the kubelet of a machine, unless it runs or the machine is gone."""
        if name not in self._nodes or name in self._running:
            return
        number = self._starts[name] = self._starts.get(name, 0) + 1
        node = self._nodes[name]
        kubelet = Kubelet(self._world, self._servers, node, number, is_tainted_first=self._taints_first)
        self._running[name] = kubelet
        for attend in self.on_start:
            attend(kubelet)
        kubelet.start()

    def stop_kubelet(self, name: str) -> None:
        """End the kubelet of a machine, if it runs. What it ran goes on, but says nothing."""
        kubelet = self._running.pop(name, None)
        if kubelet is not None:
            self._world.trace.write(f"kubelet-{name}", "ends")
            kubelet.stop()

    def evict(self, name: str) -> None:
        """Let memory be short on a machine, if its kubelet runs."""
        if name in self._running:
            self._running[name].evict()


class MachineTroubles:
    """What happens to machines, drawn by seed. All of it is over at a time."""

    def __init__(self, machines: Machines, client: ActorClient, until: float) -> None:
        """`client` is that of the cloud's controller, which deletes the nodes of machines that are gone."""
        self._machines = machines
        self._client = client
        self._until = until
        self._random = client.random
        self._seconds_between = self._random.choice((10.0, 30.0, 90.0))
        kinds: list[Callable[[str], None]] = [self._stop, self._evict, self._lose, self._delete_node]
        self._kinds = self._random.sample(kinds, self._random.randint(1, len(kinds)))

    def start(self) -> None:
        """Begin."""
        self._client.call_later(self._random.expovariate(1 / self._seconds_between), self._happen)

    def _happen(self) -> None:
        if self._now() < self._until:
            names = self._machines.names
            if names:
                self._random.choice(self._kinds)(self._random.choice(names))
            self.start()

    def _now(self) -> float:
        return self._client.world.timeline.now

    def _later(self, seconds: float, action: Callable[[], None], *, after_end: float = 0.0) -> None:
        """Do something after some seconds, or at the end of all troubles, or so many seconds after that."""
        self._client.call_later(max(0.0, min(seconds, self._until + after_end - self._now())), action)

    def _stop(self, name: str) -> None:
        self._machines.stop_kubelet(name)
        seconds = self._random.choice((3.0, 20.0, 100.0)) * self._random.uniform(0.5, 1.5)
        self._later(seconds, partial(self._machines.start_kubelet, name))

    def _evict(self, name: str) -> None:
        self._machines.evict(name)

    def _lose(self, name: str) -> None:
        """The machine is gone; later another one has its name."""
        node = self._machines.remove(name)
        self._later(self._random.uniform(0.0, 60.0), lambda: self._delete_if_gone(name))
        seconds = self._random.uniform(10.0, 120.0)
        self._later(seconds, lambda: self._come_back(name, node), after_end=_DELETION_SECONDS)

    def _delete_if_gone(self, name: str) -> None:
        if name not in self._machines.names:
            start(self._delete(name))

    def _come_back(self, name: str, node: Object) -> None:
        if name not in self._machines.names:
            self._machines.add(node)

    def _delete_node(self, name: str) -> None:
        """Someone deletes the node, and restarts the kubelet, which registers it again."""
        start(self._delete(name))

        def restart() -> None:
            self._machines.stop_kubelet(name)
            self._machines.start_kubelet(name)

        self._later(self._random.uniform(1.0, 60.0), restart, after_end=_DELETION_SECONDS)

    async def _delete(self, name: str) -> None:
        """Delete a node, however often that is refused."""
        try:
            await self._client.ask("DELETE", f"/api/v1/nodes/{name}")
        except RequestError as error:
            if error.status not in (404, 409):
                await self._client.sleep(2.0)
                await self._delete(name)

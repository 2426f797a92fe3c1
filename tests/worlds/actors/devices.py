"""Device plugins of machines: a node has its devices once their plugin has registered, and while that is there."""

from typing import Final

from tests.worlds.actors.kubelet import Kubelet
from tests.worlds.actors.routines import start
from tests.worlds.simulation.world import World

_REGISTERS_SECONDS: Final = 30.0
_FAILS_EVERY_SECONDS: Final = 60.0
_AWAY_SECONDS: Final = (3.0, 40.0)


class DevicePlugins:
    """Report one resource of the nodes that have it. They fail at times, until a time in the world's seconds."""

    def __init__(self, world: World, resource: str, until: float) -> None:
        self._world = world
        self._resource = resource
        self._until = until

    def attend(self, kubelet: Kubelet) -> None:
        """Take over a kubelet's devices, before it starts."""
        amount = kubelet.withhold(self._resource)
        if amount is not None:
            start(self._live(kubelet, amount))

    async def _live(self, kubelet: Kubelet, amount: str) -> None:
        client = kubelet.client
        random = self._world.random(f"devices of {client.name} from {self._world.timeline.now}")
        await client.sleep(random.uniform(0.0, _REGISTERS_SECONDS))
        kubelet.offer(self._resource, amount)
        while True:
            await client.sleep(random.expovariate(1 / _FAILS_EVERY_SECONDS))
            if self._world.timeline.now >= self._until:
                return
            kubelet.offer(self._resource, "0")
            await client.sleep(random.uniform(*_AWAY_SECONDS))
            kubelet.offer(self._resource, amount)

"""People who resize pods: they take from what pods request, once Kubernetes lets them (1.33 and later)."""

from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import Object, amounts_of
from tests.worlds.actors.routines import start

_PODS: Final = "/api/v1/pods"
_PAUSES_SECONDS: Final = (2.0, 6.0, 20.0)
_LEAST_MILLI: Final = 20


class Resizers:
    """Halve the cpu that a container requests, now and then until a time. What is refused, they give up."""

    def __init__(self, client: ActorClient, until: float) -> None:
        self._client = client
        self._until = until
        self._random = client.random
        self._pause_seconds = self._random.choice(_PAUSES_SECONDS)

    def start(self) -> None:
        """Begin."""
        start(self._live())

    async def _live(self) -> None:
        while True:
            await self._client.sleep(self._random.expovariate(1 / self._pause_seconds))
            if self._client.world.timeline.now >= self._until:
                return
            try:
                await self._resize()
            except RequestError:
                continue

    async def _resize(self) -> None:
        pods: list[Object] = (await self._client.ask("GET", _PODS))["items"]
        if not pods:
            return
        pod = self._random.choice(pods)
        container = self._random.choice(pod["spec"]["containers"])
        milli = amounts_of(container.get("resources", {}).get("requests", {})).get("cpu", 0) // 2
        if milli < _LEAST_MILLI:
            return
        change = {"name": container["name"], "resources": {"requests": {"cpu": f"{milli}m"}}}
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/resize"
        await self._client.ask("PATCH", path, {"spec": {"containers": [change]}})

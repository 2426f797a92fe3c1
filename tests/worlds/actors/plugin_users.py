"""Users of a plugin that registers a kind of its own: they make such objects, change them and delete them."""

from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.routines import start

_MAPS: Final = "/api/v1/namespaces/default/configmaps"
_SECONDS_BETWEEN_WRITES: Final = 5.0


class PluginUsers:
    """Write config maps until a time. What is refused, they give up."""

    def __init__(self, client: ActorClient, until: float) -> None:
        self._client = client
        self._until = until
        self._random = client.random

    def start(self) -> None:
        """Begin."""
        start(self._live())

    async def _live(self) -> None:
        while True:
            await self._client.sleep(self._random.expovariate(1 / _SECONDS_BETWEEN_WRITES))
            if self._client.world.timeline.now >= self._until:
                return
            try:
                await self._write()
            except RequestError:
                continue

    async def _write(self) -> None:
        name = f"mood-{self._random.randrange(3)}"
        data = {"mood": str(self._random.randrange(100))}
        match self._random.choice(("make", "change", "delete")):
            case "make":
                await self._client.ask("POST", _MAPS, {"metadata": {"name": name}, "data": data})
            case "change":
                await self._client.ask("PATCH", f"{_MAPS}/{name}", {"data": data})
            case _:
                await self._client.ask("DELETE", f"{_MAPS}/{name}")

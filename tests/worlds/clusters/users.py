"""Users of a cluster: what they create and delete comes at its time, however the API server fails."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.routines import start

Object = dict[str, Any]
Wanted = Sequence[tuple[str, Object]]

PODS: Final = "/api/v1/namespaces/{}/pods"
# Refusals that no second try changes: it is there already or gone, or it is wrong.
_LASTING: Final = (400, 403, 404, 409, 422)
_MOST_TRIES: Final = 20


class Users:
    """Creates what it is told to, in order, and deletes it."""

    def __init__(self, client: ActorClient) -> None:
        self._client = client

    def create_at(self, at: float, wanted: Wanted) -> None:
        """Create objects from a time on, one after the other, each by its path and what it is."""
        self._at(at, lambda: start(self._create(wanted)))

    def delete_at(self, at: float, path: str) -> None:
        """Delete an object at a time."""
        self._at(at, lambda: start(self._ask("DELETE", path)))

    def make_again_at(self, at: float, path: str, value: Object) -> None:
        """Delete an object at once at a time, and create it again under its name, as a StatefulSet does with pods."""
        self._at(at, lambda: start(self._make_again(path, value)))

    def open_gates_at(self, at: float, path: str) -> None:
        """Remove the gates of a pod at a time."""
        self._at(at, lambda: start(self._open_gates(path)))

    async def _open_gates(self, path: str) -> None:
        for _ in range(_MOST_TRIES):
            try:
                pod = await self._client.ask("GET", path)
                if not pod["spec"].pop("schedulingGates", ()):
                    return
                await self._client.ask("PUT", path, pod)
            except RequestError as error:
                if error.status in _LASTING and error.status != 409:
                    return
                await self._client.sleep(self._client.random.uniform(0.1, 5.0))
            else:
                return

    async def _make_again(self, path: str, value: Object) -> None:
        await self._ask("DELETE", f"{path}/{value['metadata']['name']}", {"gracePeriodSeconds": 0})
        await self._ask("POST", path, value)

    def _at(self, at: float, action: Callable[[], None]) -> None:
        self._client.call_later(max(0.0, at - self._client.world.timeline.now), action)

    async def _create(self, wanted: Wanted) -> None:
        for path, value in wanted:
            await self._ask("POST", path, value)

    async def _ask(self, method: str, path: str, body: Object | None = None) -> None:
        while True:
            try:
                await self._client.ask(method, path, body)
            except RequestError as error:
                if error.status in _LASTING:
                    return
                await self._client.sleep(self._client.random.uniform(1.0, 5.0))
            else:
                return

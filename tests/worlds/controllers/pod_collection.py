"""The pod garbage collector: pods of nodes that are gone, and pods that are deleted and were never bound."""

from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import Object, is_finished
from tests.worlds.actors.routines import start
from tests.worlds.controllers.shared_views import SharedViews

_PERIOD_SECONDS: Final = 20.0
# A node must be gone for so long.
_QUARANTINE_SECONDS: Final = 40.0


class PodCollector:
    """Looks at all pods every 20 seconds."""

    def __init__(self, client: ActorClient, views: SharedViews) -> None:
        self._client = client
        self._nodes, self._pods = views.of("nodes"), views.of("pods")
        self._missing_since: dict[str, float] = {}
        client.call_later(_PERIOD_SECONDS, lambda: start(self._collect()))

    async def _collect(self) -> None:
        try:
            if self._nodes.is_synced and self._pods.is_synced:
                await self._collect_once()
        except RequestError:
            pass  # the next round tries again
        self._client.call_later(_PERIOD_SECONDS, lambda: start(self._collect()))

    async def _collect_once(self) -> None:
        gone = await self._gone_nodes()
        for pod in tuple(self._pods.objects.values()):
            name = pod["spec"].get("nodeName")
            if name in gone or (not name and "deletionTimestamp" in pod["metadata"]):
                await self._delete(pod)

    async def _gone_nodes(self) -> set[str]:
        now, gone = self._client.world.timeline.now, set()
        named = {pod["spec"]["nodeName"]: None for pod in self._pods.objects.values() if pod["spec"].get("nodeName")}
        missing = [name for name in named if name not in self._nodes.objects]
        self._missing_since = {name: self._missing_since.get(name, now) for name in missing}
        for name in missing:
            if now >= self._missing_since[name] + _QUARANTINE_SECONDS and await self._is_gone(name):
                gone.add(name)
        return gone

    async def _is_gone(self, name: str) -> bool:
        """Ask the API server, as the view lags."""
        try:
            await self._client.ask("GET", f"/api/v1/nodes/{name}")
        except RequestError as error:
            return error.status == 404
        return False

    async def _delete(self, pod: Object) -> None:
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        try:
            if not is_finished(pod):
                body = {"metadata": {"uid": metadata["uid"]}, "status": {"phase": "Failed"}}
                await self._client.ask("PATCH", f"{path}/status", body)
            await self._client.ask("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}})
        except RequestError as error:
            if error.status not in (404, 409, 422):
                raise

"""What an actor knows of the objects of one kind: a list, and a watch that is behind, as an informer's."""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.routines import start

Object = dict[str, Any]
OnChange = Callable[[str, Object | None, Object | None], None]

# How far views are behind: each draws one of these, and each event takes about so long.
_LAGS: Final = (0.002, 0.02, 0.2, 1.5)
_BACKOFF_SECONDS: Final = (0.8, 30.0)


class View:
    """Objects by key: namespace and name. `on_change` is called with a key, and the object before and after."""

    def __init__(self, client: ActorClient, path: str, fields: str = "", lag_seconds: float | None = None) -> None:
        self.objects: dict[str, Object] = {}
        self.is_synced = False
        self.on_change: list[OnChange] = []
        self._client = client
        self._path = path
        self._fields = {"fieldSelector": fields} if fields else {}
        self._lag_seconds = client.random.choice(_LAGS) if lag_seconds is None else lag_seconds
        self._version = "0"
        client.unsynced_views += 1

    def start(self) -> None:
        """Begin to list and watch."""
        start(self._run())

    async def _run(self) -> None:
        """List, then watch for as long as the server knows the version; first from its cache, as reflectors do."""
        backoff = _BACKOFF_SECONDS[0]
        while True:
            try:
                query = {**self._fields, "resourceVersion": self._version}
                self._replace(await self._client.ask("GET", self._path, query=query))
                while self._version:
                    await self._client.watch(self._path, self._watch_query(), self._take, self._lag)
                    backoff = _BACKOFF_SECONDS[0]
            except RequestError as error:
                if error.status == 410:
                    self._version = ""
                await self._client.sleep(backoff * self._client.random.uniform(1.0, 2.0))
                backoff = min(2 * backoff, _BACKOFF_SECONDS[1])

    def _watch_query(self) -> dict[str, str]:
        seconds = str(self._client.random.randrange(300, 600))
        return {
            **self._fields, "resourceVersion": self._version, "timeoutSeconds": seconds, "allowWatchBookmarks": "true",
        }  # fmt: skip

    def _lag(self) -> float:
        return self._lag_seconds * self._client.random.uniform(0.5, 1.5)

    def _replace(self, listed: Object) -> None:
        found = {_key(value): value for value in listed["items"]}
        self._version = listed["metadata"]["resourceVersion"]
        before, self.objects = self.objects, found
        if not self.is_synced:
            self.is_synced = True
            self._client.unsynced_views -= 1
        for key in [*before, *(key for key in found if key not in before)]:
            if before.get(key) != found.get(key):
                self._notify(key, before.get(key), found.get(key))

    def _take(self, line: bytes) -> None:
        event = msgspec.json.decode(line)
        value = event["object"]
        if event["type"] == "ERROR":
            self._version = ""
            return
        self._version = value["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        key = _key(value)
        before = self.objects.pop(key, None) if event["type"] == "DELETED" else self.objects.get(key)
        after = None if event["type"] == "DELETED" else value
        if after is not None:
            self.objects[key] = after
        self._notify(key, before, after)

    def _notify(self, key: str, before: Object | None, after: Object | None) -> None:
        for notify in self.on_change:
            notify(key, before, after)


def _key(value: Object) -> str:
    metadata = value["metadata"]
    namespace = metadata.get("namespace", "")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])

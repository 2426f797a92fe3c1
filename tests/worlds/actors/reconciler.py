"""Work by key, as controllers do it: one at a time for each key, and again after a failure, later each time."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.routines import Resume, start

Reconcile = Callable[[str], Coroutine[Callable[[Resume], None], Any, None]]

# So long it takes until views are looked at again that have not listed yet (WaitForCacheSync).
_SYNC_SECONDS: Final = 0.1
_FIRST_SECONDS: Final = 0.05
_MOST_SECONDS: Final = 30.0
_MOST_DOUBLINGS: Final = 10


class Reconciler:
    """Calls `reconcile` with each key that is added, soon, once all views of the client have listed.

    A RequestError lets it be called again.
    """

    def __init__(self, client: ActorClient, reconcile: Reconcile) -> None:
        self._client = client
        self._reconcile = reconcile
        self._waiting: set[str] = set()
        self._working: set[str] = set()
        self._failures: dict[str, int] = {}

    def add(self, key: str, after: float = 0.0) -> None:
        """Have a key looked at, after some seconds."""
        if after > 0.0:
            self._client.call_later(after, partial(self.add, key))
        elif key not in self._waiting:
            self._waiting.add(key)
            if key not in self._working:
                self._begin(key)

    def _begin(self, key: str) -> None:
        self._working.add(key)
        self._client.call_later(self._client.random.uniform(0.0, 0.01), lambda: start(self._work(key)))

    async def _work(self, key: str) -> None:
        self._waiting.discard(key)
        try:
            while self._client.unsynced_views:
                await self._client.sleep(_SYNC_SECONDS)
            await self._reconcile(key)
            self._failures.pop(key, None)
        except RequestError:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            self.add(key, min(_MOST_SECONDS, _FIRST_SECONDS * 2.0 ** min(failures, _MOST_DOUBLINGS)))
        self._working.discard(key)
        if key in self._waiting:
            self._begin(key)

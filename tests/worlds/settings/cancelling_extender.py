"""An extender that keeps a quota: it lets all nodes pass, and cancels some pods while it answers about them.

So a pod goes in the moment in which its attempt ends. Some have a finalizer of it, and go a while after that.
"""

from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.routines import start
from tests.worlds.settings.other_extender import Object, OtherExtender, node_names
from tests.worlds.simulation.world import World

_FINALIZER: Final = "example.com/quota"
_CANCELS: Final = 0.1
_HOLDS_ON: Final = 0.4
# It cancels so much later than it answers, at most.
_LATER_SECONDS: Final = 1e-3
_HELD_SECONDS: Final = 2.0
_MOST_TRIES: Final = 20


class CancellingExtender(OtherExtender):
    """Cancels no more pods from a time on. `client` is for its own requests."""

    name = "cancelling-extender"
    address = "10.0.0.11"

    def __init__(self, world: World, until: float, client: ActorClient) -> None:
        super().__init__(world, until)
        self._client = client

    def _filter(self, arguments: Object) -> Object:
        # If it is the only extender, and only one node passes, the attempt ends with this answer.
        self._may_cancel(arguments["Pod"]["metadata"], 1.0 if len(node_names(arguments)) == 1 else 0.1)
        return super()._filter(arguments)

    def _prioritize(self, arguments: Object) -> list[Object]:
        self._may_cancel(arguments["Pod"]["metadata"], 1.0)
        return super()._prioritize(arguments)

    def _may_cancel(self, metadata: Object, share: float) -> None:
        if not self._is_calm and self._random.random() < _CANCELS * share:
            holds_on = self._random.random() < _HOLDS_ON
            seconds = self._random.uniform(0.0, _LATER_SECONDS)
            self._client.call_later(seconds, lambda: start(self._cancel(metadata, holds_on=holds_on)))

    async def _cancel(self, metadata: Object, *, holds_on: bool) -> None:
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        precondition = {"metadata": {"uid": metadata["uid"]}}
        try:
            if holds_on:
                await self._client.ask("PATCH", path, _with_finalizers(precondition, [_FINALIZER]))
            await self._client.ask("DELETE", path, {"preconditions": precondition["metadata"]})
        except RequestError:
            pass  # the pod has gone, or the API server fails
        if holds_on:
            await self._client.sleep(_HELD_SECONDS)
            await self._let_go(path, precondition)

    async def _let_go(self, path: str, precondition: Object) -> None:
        for _ in range(_MOST_TRIES):
            try:
                await self._client.ask("PATCH", path, _with_finalizers(precondition, None))
            except RequestError as error:
                if error.status in (404, 409, 422):
                    return
                await self._client.sleep(_HELD_SECONDS)
            else:
                return


def _with_finalizers(precondition: Object, finalizers: list[str] | None) -> Object:
    return {"metadata": {**precondition["metadata"], "finalizers": finalizers}}

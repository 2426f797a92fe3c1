"""An extender that keeps a quota: it lets all nodes pass, and cancels some pods while it answers about them.

So a pod goes in the moment in which its attempt ends. Some have a finalizer of it, and go a while after that.
"""

from typing import Any, Final

import msgspec

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.routines import start
from tests.worlds.api_server.messages import Request, Response
from tests.worlds.simulation.http_face import HttpFace
from tests.worlds.simulation.world import World

Object = dict[str, Any]

_ADDRESS: Final = "10.0.0.11"
_PORT: Final = 8888
URL: Final = f"http://{_ADDRESS}:{_PORT}"
_FINALIZER: Final = "example.com/quota"
_CANCELS: Final = 0.1
_HOLDS_ON: Final = 0.4
# It cancels so much later than it answers, at most.
_LATER_SECONDS: Final = 1e-3
_HELD_SECONDS: Final = 2.0
_MOST_TRIES: Final = 20


class CancellingExtender:
    """Answers until the end of the world, and cancels no more pods from a time on. `client` is for its own requests."""

    def __init__(self, world: World, client: ActorClient, until: float) -> None:
        self._world = world
        self._client = client
        self._until = until
        self._random = random = world.random("cancelling extender")
        loop = world.loop("cancelling-extender")
        world.network.listen(loop, _ADDRESS, _PORT, lambda: HttpFace(self._answer, loop, random, world.trace))

    def _answer(self, request: Request) -> Response:
        arguments = msgspec.json.decode(request.body)
        names, metadata = arguments["NodeNames"], arguments["Pod"]["metadata"]
        if request.path == "/filter":
            # If it is the only extender, and only one node passes, the attempt ends with this answer.
            self._may_cancel(metadata, 1.0 if len(names) == 1 else 0.1)
            return Response(200, msgspec.json.encode({"NodeNames": names}))
        self._may_cancel(metadata, 1.0)
        return Response(200, msgspec.json.encode([{"Host": name, "Score": 0} for name in names]))

    def _may_cancel(self, metadata: Object, share: float) -> None:
        if self._world.timeline.now < self._until and self._random.random() < _CANCELS * share:
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

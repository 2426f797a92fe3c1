"""An extender of another maker that lets all nodes pass. At times it is late, and pods go while it is asked."""

from typing import Final

import msgspec

from tests.worlds.api_server.messages import Answer, Delayed, Request, Response
from tests.worlds.simulation.http_face import HttpFace
from tests.worlds.simulation.world import World

_ADDRESS: Final = "10.0.0.12"
_PORT: Final = 8888
URL: Final = f"http://{_ADDRESS}:{_PORT}"
_LATE_RATE: Final = 0.2
_MOST_SECONDS: Final = 3.0


class LateExtender:
    """Answers to filter until the end of the world, and at once from a time on."""

    def __init__(self, world: World, until: float) -> None:
        self._world = world
        self._until = until
        self._random = random = world.random("late extender")
        loop = world.loop("late-extender")
        world.network.listen(loop, _ADDRESS, _PORT, lambda: HttpFace(self._answer, loop, random, world.trace))

    def _answer(self, request: Request) -> Answer:
        names = msgspec.json.decode(request.body)["NodeNames"]
        answer = Response(200, msgspec.json.encode({"NodeNames": names}))
        if self._world.timeline.now >= self._until or self._random.random() >= _LATE_RATE:
            return answer
        return Delayed(self._random.uniform(0.0, _MOST_SECONDS), lambda: answer)

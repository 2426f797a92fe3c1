"""An extender of another maker, which agrees to everything. What some do beside that is in modules of their own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from tests.worlds.api_server.messages import Answer, Request, Response
from tests.worlds.simulation.http_face import HttpFace
from tests.worlds.simulation.world import World

Object = dict[str, Any]

_PORT: Final = 8888


class OtherExtender:
    """Answers until the end of the world. It lets all nodes pass, scores them alike, and agrees to all victims.

    A subclass has the `name` of its process, and an `address`. Until a time, it changes what a verb answers, or what is
    sent, or does more than to answer.
    """

    name: ClassVar[str]
    address: ClassVar[str]

    def __init__(self, world: World, until: float) -> None:
        self._world = world
        self._until = until
        self._random = random = world.random(self.name.replace("-", " "))
        loop = world.loop(self.name)
        world.network.listen(loop, self.address, _PORT, lambda: HttpFace(self._answer, loop, random, world.trace))

    @classmethod
    def url(cls) -> str:
        """Return where it is asked."""
        return f"http://{cls.address}:{_PORT}"

    @property
    def _is_calm(self) -> bool:
        """Whether it only agrees from now on."""
        return self._world.timeline.now >= self._until

    def _answer(self, request: Request) -> Answer:
        verbs: Mapping[str, Callable[[Object], object]] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
        }
        name = request.path.removeprefix("/")
        return self._respond(name, json_response(verbs[name](msgspec.json.decode(request.body))))

    def _filter(self, arguments: Object) -> Object:
        return with_nodes(arguments, node_names(arguments))

    def _prioritize(self, arguments: Object) -> list[Object]:
        return [{"Host": name, "Score": 0} for name in node_names(arguments)]

    def _preempt(self, arguments: Object) -> Object:
        victims = arguments["NodeNameToMetaVictims"] or {
            name: {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in each["Pods"]]}
            for name, each in arguments["NodeNameToVictims"].items()
        }
        return {"NodeNameToMetaVictims": victims}

    def _respond(self, verb: str, right: Response) -> Answer:
        """Return what is sent for a verb, given the right response."""
        return right


def node_names(arguments: Object) -> list[str]:
    """Return the names of the nodes of a call, which has them whole or only their names."""
    nodes = arguments["Nodes"]
    if nodes is None:
        names: list[str] = arguments["NodeNames"]
        return names
    return [each["metadata"]["name"] for each in nodes["items"]]


def with_nodes(arguments: Object, names: Sequence[str]) -> Object:
    """Return an answer that has some of the nodes of a call, in the form in which the call has them."""
    nodes = arguments["Nodes"]
    if nodes is None:
        return {"NodeNames": names}
    return {"Nodes": {"items": [each for each in nodes["items"] if each["metadata"]["name"] in names]}}


def json_response(value: object) -> Response:
    """Return a response whose body is a value as JSON."""
    return Response(200, msgspec.json.encode(value))

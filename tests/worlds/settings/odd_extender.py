"""An extender of another maker: it lets most nodes pass. At times it is slow or fails, and some answers are wrong."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from tests.worlds.api_server.messages import Answer, Delayed, Request, Response
from tests.worlds.simulation.http_face import HttpFace
from tests.worlds.simulation.world import World

Object = dict[str, Any]

_ADDRESS: Final = "10.0.0.10"
_PORT: Final = 8888
URL: Final = f"http://{_ADDRESS}:{_PORT}"
_STRANGER: Final = "node-of-another-cluster"
_ODD_RATE: Final = 0.15
_MOST_SECONDS: Final = 3.0


class OddExtender:
    """Answers until the end of the world, and rightly from a time on. It always leaves a node that passes."""

    def __init__(self, world: World, until: float) -> None:
        self._world = world
        self._until = until
        self._random = random = world.random("odd extender")
        loop = world.loop("odd-extender")
        world.network.listen(loop, _ADDRESS, _PORT, lambda: HttpFace(self._answer, loop, random, world.trace))

    def _answer(self, request: Request) -> Answer:
        arguments = msgspec.json.decode(request.body)
        verbs: Mapping[str, Callable[[Object], object]] = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
        }
        right = _response(verbs[request.path.removeprefix("/")](arguments))
        if not self._is_odd():
            return right
        oddities: Sequence[Answer] = (
            Delayed(self._random.uniform(0.0, _MOST_SECONDS), lambda: right),
            Response(500, b"not now"),
            Response(200, b""),
            Response(200, b'{"Error": "\xff"}'),
            Response(200, b"[1"),
            _response({"Error": "not now"}),
            _response({"Nodes": {"items": [{"metadata": 1}]}, "NodeNames": [_STRANGER]}),
            _response({"NodeNameToMetaVictims": {_STRANGER: {"Pods": [{"UID": "no-such-pod"}]}}}),
        )
        return self._random.choice(oddities)

    def _filter(self, arguments: Object) -> object:
        nodes = arguments["Nodes"]
        names = arguments["NodeNames"] if nodes is None else [node["metadata"]["name"] for node in nodes["items"]]
        failed = self._random.sample(names, self._random.randrange(len(names))) if self._is_odd() else []
        strangers = [_STRANGER] if failed and self._is_odd() else []
        left = [name for name in names if name not in failed]
        reasons = dict.fromkeys((*failed, *strangers), "odd")
        which = self._random.choice(("FailedNodes", "FailedAndUnresolvableNodes"))
        if nodes is None:
            return {"NodeNames": left, which: reasons}
        return {
            "Nodes": {"items": [each for each in nodes["items"] if each["metadata"]["name"] in left]},
            which: reasons,
        }

    def _prioritize(self, arguments: Object) -> object:
        nodes = arguments["Nodes"]
        names = arguments["NodeNames"] if nodes is None else [node["metadata"]["name"] for node in nodes["items"]]
        return [{"Host": name, "Score": self._random.randrange(11)} for name in names]

    def _preempt(self, arguments: Object) -> object:
        """Agree; at times on some nodes only, or with no victim there."""
        whole = arguments["NodeNameToVictims"]
        victims = arguments["NodeNameToMetaVictims"] or {
            name: {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in each["Pods"]]} for name, each in whole.items()
        }
        if self._is_odd():
            victims = {name: each for name, each in victims.items() if self._random.random() < 0.7}
        if self._is_odd():
            victims = {name: {**each, "Pods": []} for name, each in victims.items()}
        return {"NodeNameToMetaVictims": victims}

    def _is_odd(self) -> bool:
        return self._world.timeline.now < self._until and self._random.random() < _ODD_RATE


def _response(answer: object) -> Response:
    return Response(200, msgspec.json.encode(answer))

"""An extender of another maker: it lets most nodes pass. At times it is slow or fails, and some answers are wrong."""

from typing import Final

from tests.worlds.api_server.messages import Answer, Delayed, Response
from tests.worlds.settings.other_extender import Object, OtherExtender, json_response, node_names, with_nodes

_STRANGER: Final = "node-of-another-cluster"
_ODD_RATE: Final = 0.15
_MOST_SECONDS: Final = 3.0


class OddExtender(OtherExtender):
    """Answers rightly from a time on. Filter always fails or leaves a node that passes: without hints, no event would
    wake a pod that only an extender has rejected.
    """

    name = "odd-extender"
    address = "10.0.0.10"

    def _filter(self, arguments: Object) -> Object:
        names = node_names(arguments)
        failed = self._random.sample(names, self._random.randrange(len(names))) if self._is_odd() else []
        strangers = [_STRANGER] if failed and self._is_odd() else []
        reasons = dict.fromkeys((*failed, *strangers), "odd")
        which = self._random.choice(("FailedNodes", "FailedAndUnresolvableNodes"))
        return {**with_nodes(arguments, [name for name in names if name not in failed]), which: reasons}

    def _prioritize(self, arguments: Object) -> list[Object]:
        return [{**each, "Score": self._random.randrange(11)} for each in super()._prioritize(arguments)]

    def _preempt(self, arguments: Object) -> Object:
        """Agree; at times on some nodes only, or with no victim there."""
        victims = super()._preempt(arguments)["NodeNameToMetaVictims"]
        if self._is_odd():
            victims = {name: each for name, each in victims.items() if self._random.random() < 0.7}
        if self._is_odd():
            victims = {name: {**each, "Pods": []} for name, each in victims.items()}
        return {"NodeNameToMetaVictims": victims}

    def _respond(self, verb: str, right: Response) -> Answer:
        """Send something else at times."""
        if not self._is_odd():
            return right
        oddities: list[Answer] = [
            Delayed(self._random.uniform(0.0, _MOST_SECONDS), lambda: right),
            Response(500, b"not now"),
            Response(200, b""),
            Response(200, b'{"Error": "\xff"}'),
            Response(200, b"[1"),
            json_response({"Error": "not now"}),
            json_response({"Nodes": {"items": [{"metadata": 1}]}, "NodeNames": [_STRANGER]}),
        ]
        if verb != "filter":
            # To filter, this is no error, and lets no node pass.
            oddities.append(json_response({"NodeNameToMetaVictims": {_STRANGER: {"Pods": [{"UID": "no-such-pod"}]}}}))
        return self._random.choice(oddities)

    def _is_odd(self) -> bool:
        return not self._is_calm and self._random.random() < _ODD_RATE

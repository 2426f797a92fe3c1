"""An extender of another maker that has a say about preemption: it agrees late, or not to what it is asked."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.worlds.api_server.messages import Answer, Delayed, Response
from tests.worlds.settings.other_extender import Object, OtherExtender

_PICKY_RATE: Final = 0.4
_LATE_RATE: Final = 0.4
_MOST_SECONDS: Final = 1.5
_NO_NODE: Final = "no-such-node"
_NO_POD: Final[Mapping[str, object]] = {"Pods": [{"UID": "no-such-pod"}], "NumPDBViolations": 0}


class PickyExtender(OtherExtender):
    """Agrees to everything, and at once, from a time on. It spells fields as Go does not, which Go reads as well."""

    name = "picky-extender"
    address = "10.0.0.13"

    def _prioritize(self, arguments: Object) -> list[Object]:
        return [{"host": each["Host"], "score": each["Score"]} for each in super()._prioritize(arguments)]

    def _preempt(self, arguments: Object) -> Object:
        victims: Object = super()._preempt(arguments)["NodeNameToMetaVictims"]
        if self._is_calm or self._random.random() >= _PICKY_RATE:
            return {"NodeNameToMetaVictims": victims}
        name = self._random.choice(list(victims))
        change: Callable[[], Object] = self._random.choice((
            lambda: {each: victims[each] for each in victims if each != name},
            lambda: victims | {name: {**victims[name], "Pods": []}},
            lambda: victims | {name: _NO_POD},
            lambda: victims | {_NO_NODE: _NO_POD},
        ))  # fmt: skip
        return {"NodeNameToMetaVictims": change()}

    def _respond(self, verb: str, right: Response) -> Answer:
        if self._is_calm or verb != "preempt" or self._random.random() >= _LATE_RATE:
            return right
        return Delayed(self._random.uniform(0.0, _MOST_SECONDS), lambda: right)

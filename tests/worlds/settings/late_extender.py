"""An extender of another maker that lets all nodes pass. At times it is late, and pods go while it is asked."""

from typing import Final

from tests.worlds.api_server.messages import Answer, Delayed, Response
from tests.worlds.settings.other_extender import OtherExtender

_LATE_RATE: Final = 0.2
_MOST_SECONDS: Final = 3.0


class LateExtender(OtherExtender):
    """Answers at once from a time on."""

    name = "late-extender"
    address = "10.0.0.12"

    def _respond(self, verb: str, right: Response) -> Answer:
        if self._is_calm or self._random.random() >= _LATE_RATE:
            return right
        return Delayed(self._random.uniform(0.0, _MOST_SECONDS), lambda: right)

"""What faults may hit in a world."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.worlds.simulation.process import Process
    from tests.worlds.simulation.world import World


@dataclass(frozen=True)
class Surroundings:
    """The parts of a world that faults may hit.

    - `programs`: the product's programs by name: replicas of `schedule`, and `serve`
    - `api_server`: the host of the API server
    """

    world: "World"
    programs: Mapping[str, "Process"]
    api_server: str
    _held: dict[tuple[str, ...], int] = field(default_factory=dict)

    def hold(self, *what: str) -> bool:
        """Begin something that several faults may do at a time; return whether this one is the first."""
        self._held[what] = self._held.get(what, 0) + 1
        return self._held[what] == 1

    def release(self, *what: str) -> bool:
        """End it for one fault; return whether this one was the last."""
        self._held[what] -= 1
        return self._held[what] == 0

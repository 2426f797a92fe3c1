"""Faults of connections."""

from collections.abc import Sequence

from tests.worlds.faults.plan import End, Fault, FaultKind
from tests.worlds.faults.programs import some_seconds
from tests.worlds.faults.surroundings import Surroundings


def links(surroundings: Surroundings) -> Sequence[str]:
    """Return the pairs of hosts that talk with each other, as one word each."""
    return [f"{name}/{surroundings.api_server}" for name in surroundings.programs]


def _cut(surroundings: Surroundings, fault: Fault) -> End:
    one, _, other = fault.target.partition("/")
    network = surroundings.world.network
    if surroundings.hold("cut", one, other):
        network.cut(one, other)

    def mend() -> None:
        if surroundings.release("cut", one, other):
            network.mend(one, other)

    return mend


NETWORK_FAULTS = (FaultKind("cut", links, _cut, some_seconds),)

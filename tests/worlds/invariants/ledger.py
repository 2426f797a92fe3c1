"""A user's plugin that reports what the framework asks of it: reservations, and how each ends.

Name it with `--plugin tests.worlds.invariants.ledger:Ledger`, and enable it in the configuration.
"""

from collections.abc import Callable
from typing import Final, Literal, NamedTuple
from weakref import WeakKeyDictionary

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import PostBind, Reserve
from extender_service.framework.status import Status
from extender_service.kube.types.core import Pod
from tests.worlds.simulation.network import Network
from tests.worlds.simulation.simulated_loop import SimulatedLoop, running_loop

PLUGIN: Final = ("--plugin", "tests.worlds.invariants.ledger:Ledger")

Point = Literal["reserve", "unreserve", "post_bind"]


class LedgerEntry(NamedTuple):
    """One call of the plugin. `ledger` is that of the first profile in its process. `state` is the attempt's."""

    point: Point
    ledger: "Ledger"
    state: CycleState
    pod: Pod
    node_name: str


Listener = Callable[[LedgerEntry], None]
_listeners: WeakKeyDictionary[Network, list[Listener]] = WeakKeyDictionary()
_first_ledgers: "WeakKeyDictionary[SimulatedLoop, Ledger]" = WeakKeyDictionary()


def listen_to_ledgers(network: Network, listener: Listener) -> None:
    """Have something called at each call of a plugin, in any process of a world; worlds are told apart by networks."""
    _listeners.setdefault(network, []).append(listener)


class Ledger(Reserve, PostBind):
    """Accepts everything. `loop` is that of its process, and `who` the name."""

    name = "Ledger"

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        loop = running_loop()
        self.who = loop.name
        self.loop = loop
        _first_ledgers.setdefault(loop, self)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self._report("reserve", state, pod, node_name)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._report("unreserve", state, pod, node_name)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._report("post_bind", state, pod, node_name)

    def _report(self, point: Point, state: CycleState, pod: Pod, node_name: str) -> None:
        entry = LedgerEntry(point, _first_ledgers[self.loop], state, pod, node_name)
        for listener in _listeners.get(self.loop.network, ()):
            listener(entry)

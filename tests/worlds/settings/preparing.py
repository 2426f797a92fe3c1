"""Users' plugins that take part in bindings: one takes its time for them, and one binds pods by itself.

Name them with `--plugin tests.worlds.settings.preparing:Preparing`, and enable them in the configuration.
"""

import asyncio
from random import Random
from typing import Final
from weakref import WeakKeyDictionary

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Bind, Permit, PreBind
from extender_service.framework.status import SKIP, Code, Status
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from tests.worlds.settings.moody import BAD_MOOD
from tests.worlds.simulation.network import Network
from tests.worlds.simulation.simulated_loop import SimulatedLoop
from tests.worlds.simulation.world import World

# How long an approval takes at most, and then a preparation. A scheduler waits 5 s for `serve` to bind a pod: without
# faults, it need not ask again.
_MOST_SECONDS: Final = (4.0, 12.0, 25.0)
_PROMPT_SECONDS: Final = 2.0
_CLEANS_UP_SECONDS: Final = 1.5
# So often PreBindPreFlight fails; a preparation that is cancelled is done already; and no plugin binds a pod.
_FAILS: Final = 0.03
_IS_DONE: Final = 0.2
_LEAVES: Final = 0.08


class Preparations:
    """How often the plugins take their time and for how long, in all processes of a world, until a time."""

    def __init__(self, world: World, until: float, *, has_faults: bool) -> None:
        random = world.random("preparations")
        self.rate = random.choice((0.05, 0.15, 0.4))
        self.most_seconds = random.choice(_MOST_SECONDS) if has_faults else _PROMPT_SECONDS
        self._world = world
        self._until = until

    def random(self, who: str) -> Random:
        """Return the source of a process."""
        return self._world.random(f"preparations of {who} from {self._world.timeline.now}")

    @property
    def are_over(self) -> bool:
        """Whether all is prepared from now on."""
        return self._world.timeline.now >= self._until


_preparations: WeakKeyDictionary[Network, Preparations] = WeakKeyDictionary()


def let_prepare(world: World, until: float, *, has_faults: bool) -> None:
    """Let the plugins of a world take their time until a time."""
    _preparations[world.network] = Preparations(world, until, has_faults=has_faults)


def _running_loop() -> SimulatedLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    return loop


class Preparing(Permit, PreBind):
    """Has some pods approved in Permit, and prepares something for some on their nodes in PreBind.

    A preparation that is cancelled is taken back, which takes its time, too; or it is done already.
    """

    name = "Preparing"
    retry_on = ()

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._loop = _running_loop()
        self._preparations = _preparations[self._loop.network]
        self._random = self._preparations.random(self._loop.name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        if not self._takes_time():
            return None, 0.0
        self._loop.call_later(self._some_seconds(), self._approve, pod)
        return Status(Code.WAIT, ("is not approved yet",)), 2.0 * self._preparations.most_seconds

    def _approve(self, pod: Pod) -> None:
        if (waiting := self.handle.waiting_pods.get(pod_uid(pod))) is not None:
            waiting.allow(self.name)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self._preparations.are_over and self._random.random() < _FAILS:
            raise RuntimeError(BAD_MOOD)
        return None if self._takes_time() else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self._takes_time():
            return None
        try:
            await asyncio.sleep(self._some_seconds())
        except asyncio.CancelledError:
            await asyncio.sleep(self._random.uniform(0.0, _CLEANS_UP_SECONDS))
            if self._random.random() >= _IS_DONE:
                raise
        return None

    def _takes_time(self) -> bool:
        return not self._preparations.are_over and self._random.random() < self._preparations.rate

    def _some_seconds(self) -> float:
        return self._random.uniform(0.0, self._preparations.most_seconds)


class Courier(Bind):
    """Binds pods as DefaultBinder does, in its place. It leaves some to others, though there are none."""

    name = "Courier"
    retry_on = ()

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        loop = _running_loop()
        self._preparations = _preparations[loop.network]
        self._random = self._preparations.random(f"{loop.name} by courier")

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self._preparations.are_over and self._random.random() < _LEAVES:
            return SKIP
        await self.handle.pods.bind_pod(pod.metadata.namespace, pod.metadata.name, pod_uid(pod), node_name)
        return None

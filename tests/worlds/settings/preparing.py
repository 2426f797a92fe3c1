"""Users' plugins that take part in bindings: one takes its time for them, and one binds pods by itself.

Name them with `--plugin tests.worlds.settings.preparing:Preparing`, and enable them in the configuration.
"""

import asyncio
from typing import Final

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Bind, Permit, PreBind
from extender_service.framework.status import SKIP, Code, Status
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from tests.worlds.settings.plugin_moods import BAD_MOOD, moods_here
from tests.worlds.simulation.simulated_loop import running_loop

# One of these is how often it takes time.
_RATES: Final = (0.05, 0.15, 0.4)
# How long an approval takes at most, and then a preparation. A scheduler waits 5 s for `serve` to bind a pod: without
# faults, it need not ask again.
_MOST_SECONDS: Final = (4.0, 12.0, 25.0)
_PROMPT_SECONDS: Final = 2.0
_CLEANS_UP_SECONDS: Final = 1.5
# So often PreBindPreFlight fails; a preparation that is cancelled is done already; and no plugin binds a pod.
_FAILS: Final = 0.03
_IS_DONE: Final = 0.2
_LEAVES: Final = 0.08


class Preparing(Permit, PreBind):
    """Has some pods approved in Permit, and prepares something for some on their nodes in PreBind.

    A preparation that is cancelled is taken back, which takes its time, too; or it is done already.
    """

    name = "Preparing"
    retry_on = ()

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._loop = running_loop()
        self._moods, program = moods_here()
        drawn = self._moods.random_of_all("preparations")
        self._rate = drawn.choice(_RATES)
        self._most_seconds = drawn.choice(_MOST_SECONDS) if self._moods.has_faults else _PROMPT_SECONDS
        self._random = self._moods.random(f"preparations of {program}")

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        if not self._takes_time():
            return None, 0.0
        self._loop.call_later(self._some_seconds(), self._approve, pod)
        return Status(Code.WAIT, ("is not approved yet",)), 2.0 * self._most_seconds

    def _approve(self, pod: Pod) -> None:
        if (waiting := self.handle.waiting_pods.get(pod_uid(pod))) is not None:
            waiting.allow(self.name)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self._moods.are_over and self._random.random() < _FAILS:
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
        return not self._moods.are_over and self._random.random() < self._rate

    def _some_seconds(self) -> float:
        return self._random.uniform(0.0, self._most_seconds)


class Courier(Bind):
    """Binds pods as DefaultBinder does, in its place. It leaves some to others, though there are none."""

    name = "Courier"
    retry_on = ()

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._moods, program = moods_here()
        self._random = self._moods.random(f"preparations of {program} by courier")

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if not self._moods.are_over and self._random.random() < _LEAVES:
            return SKIP
        await self.handle.pods.bind_pod(pod.metadata.namespace, pod.metadata.name, pod_uid(pod), node_name)
        return None

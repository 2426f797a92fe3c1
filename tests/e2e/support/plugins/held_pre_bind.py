"""A user's plugin whose PreBind lasts as long as a test wants, and then fails if the pod asks for that."""

import asyncio
from pathlib import Path

from extender_service.config.model import Model
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import PreBind
from extender_service.framework.status import Status, unschedulable
from extender_service.kube.types.core import Pod


class HeldPreBindArgs(Model):
    """PreBind ends once this file exists."""

    file: str


class HeldPreBind(PreBind):
    """Waits, and refuses pods with the label `refused`."""

    name = "HeldPreBind"
    args_type = HeldPreBindArgs
    args: HeldPreBindArgs

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        while not self._may_go_on():
            await asyncio.sleep(0.05)
        return unschedulable("the pod wanted it so") if "refused" in pod.metadata.labels else None

    def _may_go_on(self) -> bool:
        return Path(self.args.file).exists()

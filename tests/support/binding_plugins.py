"""Plugins of the binding cycle that set something aside, and that take their time."""

from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Permit, PreBind, Reserve
from extender_service.framework.status import Code, Status, unschedulable
from extender_service.kube.types.core import Pod
from tests.support.servers.slow_api_server import SlowApiServer

SEATS = 3
WAIT_SECONDS = 20.0


class Seats(Reserve):
    """Some seats on each node; a pod keeps its seat until it is gone. Knows of them only what it is told."""

    name = "Seats"

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self.taken: set[tuple[str, str]] = set()
        self.given_two: set[str] = set()

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if sum(taken == node_name for _, taken in self.taken) == SEATS:
            return unschedulable("no seat left")
        if any(uid == pod.metadata.uid for uid, _ in self.taken):
            self.given_two.add(pod.metadata.uid)
        self.taken.add((pod.metadata.uid, node_name))
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.taken.discard((pod.metadata.uid, node_name))

    def forget(self, pod: Pod) -> None:
        self.taken = {(uid, node_name) for uid, node_name in self.taken if uid != pod.metadata.uid}


class Doorman(Permit):
    """Makes the pods of one name wait."""

    name = "Doorman"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return (Status(Code.WAIT), WAIT_SECONDS) if pod.metadata.name == "waits" else (None, 0)


class Late(Permit, Reserve):
    """Makes pods wait in Permit, or refuses them there."""

    name = "Late"
    refuses = False

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return (unschedulable("not now"), 0.0) if self.refuses else (Status(Code.WAIT), 60.0)


class Errand(PreBind):
    """Has the API server do something for the pods of one name before they are bound."""

    name = "Errand"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if pod.metadata.name == "prepares":
            assert isinstance(self.handle.pods, SlowApiServer)
            await self.handle.pods.ask(lambda: None)
        return None

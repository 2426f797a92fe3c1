"""An engine over nodes a and b, whose plugins hold up a binding where a test wants it."""

import asyncio
from collections.abc import Callable

from extender_service.cluster.amounts.dimensions import CPU_MILLI
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import default_config
from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Permit, PostBind, PreBind, Reserve
from extender_service.framework.profiles import Profiles
from extender_service.framework.registry.registry import Registry
from extender_service.framework.status import Code, Status, unschedulable
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.plugins.volume_binding.plugin import VolumeBinding
from extender_service.scheduling.asked_nodes import AskedNodes
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.question import Question
from tests.support.clusters.extender_world import Hold, Pods
from tests.support.objects import make_node


class Steps(Reserve, Permit, PreBind):
    """Notes what is reserved, refuses to reserve what `full` names, and holds pods up by their names."""

    name = "Steps"

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self.reserved: dict[str, str] = {}
        self.full: set[str] = set()
        self.asked_to_permit: Callable[[], None] = lambda: None
        self.pre_binding = Hold()

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.reserved[pod_uid(pod)] = node_name
        return unschedulable("full") if node_name in self.full else None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if self.reserved.get(pod_uid(pod)) == node_name:
            del self.reserved[pod_uid(pod)]

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        self.asked_to_permit()
        return (Status(Code.WAIT), 60.0) if pod.metadata.name == "permit" else (None, 0.0)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if pod.metadata.name == "pre-bind":
            self.pre_binding.arrived.set()
            await self.pre_binding.go_on.wait()


class Bound(PostBind):
    """Notes which pods were bound."""

    name = "Bound"

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self.pods: list[str] = []

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.pods.append(f"{pod.metadata.name} on {node_name}")


class EngineOnTwoNodes:
    """Nodes a and b of 4 CPUs each, the default plugins and `steps`, and an API server that knows some pods. No claims
    are bound."""

    def __init__(self, *pods: Pod, rules: Rules = DEFAULT_RULES) -> None:
        self.cluster = Cluster(rules)
        self.api = Pods()
        self.handle = handle = Handle(self.cluster, self.api)
        profiles = Registry(IN_TREE, rules=rules).profiles(default_config(ARGS_TYPES, rules), handle)
        (profile,) = profiles.values()
        self.steps = Steps(None, handle)
        # Most tests place pods without a decision, and VolumeBinding needs the state of one.
        profile.reserve = (*(each for each in profile.reserve if each.name != VolumeBinding.name), self.steps)
        profile.permit += (self.steps,)
        profile.pre_bind = (*(each for each in profile.pre_bind if each.name != VolumeBinding.name), self.steps)
        self.waiting_pods = handle.waiting_pods
        self.engine = Engine(self.cluster, Profiles(profiles), self.api)
        for name in ("a", "b"):
            self.cluster.apply_node(make_node(name))
        for pod in pods:
            self.api.put(pod)
            self.cluster.apply_pod(pod)

    def note_bound(self) -> Bound:
        """Have a plugin note for which pods PostBind runs."""
        (profile,) = self.engine.profiles
        profile.post_bind += (bound := Bound(None, self.handle),)
        return bound

    def question(self, pod: Pod, *names: str) -> Question:
        """A question about the nodes of these names, all nodes unless there are any."""
        nodes: AskedNodes = self.engine.nodes.named(names) if names else self.engine.nodes.all()
        return Question(pod, nodes)

    def cpu_milli(self, node_name: str) -> int:
        """What counts on a node."""
        return int(self.cluster.nodes.requested[CPU_MILLI, self.cluster.nodes.row_of[node_name]])

    async def reached(self, step: str) -> None:
        """Wait until a pod is held up in this step, of which it has the name."""
        async with asyncio.timeout(5):
            if step == "permit":
                while not len(self.waiting_pods):
                    await asyncio.sleep(0)
            elif step == "pre-bind":
                await self.steps.pre_binding.arrived.wait()
            else:
                assert self.api.hold is not None
                await self.api.hold.arrived.wait()

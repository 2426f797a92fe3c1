"""Gang: binds pods that need each other together or not at all. The first ones wait in Permit for the others."""

from typing import Annotated, NamedTuple

from pydantic import Field

from extender_service.plugin_api import (
    MAX_WAIT_SECONDS,
    Code,
    CycleState,
    Handle,
    Model,
    Permit,
    Placement,
    Pod,
    PodQuery,
    PodSelector,
    PreFilter,
    Reserve,
    Status,
    WaitingPod,
    label_set_selector,
    unresolvable,
)

GANG, SIZE = "example.com/gang", "example.com/gang-size"


class GangArgs(Model):
    """How long a pod holds its place while it waits for the others."""

    timeout_seconds: Annotated[float, Field(gt=0, le=MAX_WAIT_SECONDS)] = 30.0


class _Gang(NamedTuple):
    namespace: str
    name: str


class Gang(PreFilter, Reserve, Permit):
    """Binds pods of one namespace with the same label `example.com/gang` only once `example.com/gang-size` of them (2
    without the label) hold a place. If one of them loses its place, or time runs out, those that wait lose theirs.

    In a complete gang, a pod that replaces one that ended is bound at once. Works with `schedule`. As an extender, it
    needs `--mode replace` and the bind verb: only then does the service hold a place from when it chooses it.
    """

    name = "Gang"
    args_type = GangArgs
    args: GangArgs

    def __init__(self, args: GangArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._gives_way_until: dict[_Gang, float] = {}

    def pre_filter(self, state: CycleState, pod: Pod) -> Status | None:
        """Let a gang that has just given up give way to others. Otherwise, two gangs that each hold half of what they
        need would take each other's places for ever."""
        gang = _gang_of(pod)
        if gang is None:
            return None
        if not pod.metadata.labels.get(SIZE, "2").isdecimal():
            return unresolvable(f"label {SIZE} is not a number")
        if self._gives_way_until.get(gang, 0.0) > self.handle.clock():
            being_placed = {_gang_of(placement.pod) for placement in self.handle.cluster.placements}
            if being_placed - {None, gang}:
                return unresolvable("another gang has precedence")
        return None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing: the service itself holds the place, as for every pod."""

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        """Allow the whole gang if this was the last pod missing."""
        gang = _gang_of(pod)
        if gang is None:
            return None, 0.0
        if self._count(gang) < int(pod.metadata.labels.get(SIZE, "2")):
            return Status(Code.WAIT), self.args.timeout_seconds
        self._gives_way_until.pop(gang, None)
        for other in self._waiting(gang):
            other.allow(self.name)
        return None, 0.0

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Reject the pods that wait for this one, so that their places are free for others."""
        gang = _gang_of(pod)
        if gang is None:
            return
        now = self.handle.clock()
        self._gives_way_until = {other: until for other, until in self._gives_way_until.items() if until > now}
        self._gives_way_until[gang] = now + self.args.timeout_seconds
        for other in self._waiting(gang):
            other.reject(self.name, f"pod {pod.metadata.name} of its gang lost its place")

    def _waiting(self, gang: _Gang) -> list[WaitingPod]:
        return [waiting for waiting in self.handle.waiting_pods if _gang_of(waiting.pod) == gang]

    def _count(self, gang: _Gang) -> int:
        """Count the pods of the gang that run, or will run unless something fails."""
        cluster = self.handle.cluster
        selector = PodSelector(frozenset({gang.namespace}), label_set_selector({GANG: gang.name}))
        return cluster.count_pods(PodQuery((selector,), with_terminating=False)) - sum(
            self._may_be_lost(placement) for placement in cluster.placements if _gang_of(placement.pod) == gang
        )

    def _may_be_lost(self, placement: Placement) -> bool:
        """Return whether the pod was given its place, but did not reach Permit, or is about to lose it again."""
        waiting = self.handle.waiting_pods.get(placement.uid)
        return not placement.assumed or (waiting is not None and waiting.is_rejected)


def _gang_of(pod: Pod) -> _Gang | None:
    name = pod.metadata.labels.get(GANG)
    return None if name is None else _Gang(pod.metadata.namespace, name)

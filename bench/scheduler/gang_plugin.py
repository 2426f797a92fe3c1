"""A gang by Permit that costs next to nothing itself, so that the waiting and binding are what is measured."""

from collections import defaultdict

from extender_service.plugin_api import Code, CycleState, Handle, Permit, Pod, Status

GANG = "bench.example/gang"
PODS_OF_GANG = 10
_TIMEOUT_SECONDS = 60.0


class WholeGang(Permit):
    """Binds the pods with one label once ten of them hold a place. No pod may lose its place or go meanwhile."""

    name = "WholeGang"

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._waiting: defaultdict[str, list[str]] = defaultdict(list)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:  # noqa: ARG002
        """Allow the whole gang if this was the last pod missing."""
        gang = pod.metadata.labels[GANG]
        others = self._waiting[gang]
        if len(others) + 1 < PODS_OF_GANG:
            others.append(pod.metadata.uid)
            return Status(Code.WAIT), _TIMEOUT_SECONDS
        for uid in self._waiting.pop(gang):
            waiting = self.handle.waiting_pods.get(uid)
            assert waiting is not None, f"pod {uid} no longer waits"
            waiting.allow(self.name)
        return None, 0.0

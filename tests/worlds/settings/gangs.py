"""A user's plugin that binds the pods of an app only several at once, as coscheduling plugins do.

Name it with `--plugin tests.worlds.settings.gangs:Gang`, and enable it in the configuration.
"""

from collections import Counter
from typing import Final

from extender_service.framework.cluster_event import POD, ActionType, ClusterEvent
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Permit
from extender_service.framework.status import Code, Status
from extender_service.framework.waiting_pods import WaitingPod
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from tests.worlds.settings.plugin_moods import moods_here
from tests.worlds.simulation.simulated_loop import running_loop

_APP: Final = "app"
_SIZE: Final = 4
# How long the first of them waits for others: less than a scheduler waits for `serve` to bind a pod.
_GIVES_UP_SECONDS: Final = 3.0
_LONGEST_WAIT_SECONDS: Final = 2 * _GIVES_UP_SECONDS
# A pod is not refused more often in one process, and is tried again so long after it was.
_MOST_REFUSALS: Final = 2
_TRIED_AGAIN_SECONDS: Final = 1.0


class Gang(Permit):
    """Lets pods of an app wait until there are four, which then are bound. If no four come, it refuses all at once."""

    name = "Gang"
    retry_on = (ClusterEvent(POD, ActionType.ADD | ActionType.DELETE),)

    def __init__(self, args: None, handle: Handle) -> None:
        super().__init__(args, handle)
        self._loop = running_loop()
        self._moods, _ = moods_here()
        self._refusals: Counter[str] = Counter()

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        app = pod.metadata.labels.get(_APP)
        if app is None or self._moods.are_over or self._refusals[pod_uid(pod)] >= _MOST_REFUSALS:
            return None, 0.0
        waiting = self._waiting(app)
        if len(waiting) + 1 >= _SIZE:
            for each in waiting:
                each.allow(self.name)
            return None, 0.0
        if not waiting:
            self._loop.call_later(_GIVES_UP_SECONDS, self._give_up, app)
        return Status(Code.WAIT, ("waits for others of its app",)), _LONGEST_WAIT_SECONDS

    def _give_up(self, app: str) -> None:
        """Refuse all that wait: also those that came after others had been let go."""
        for each in self._waiting(app):
            self._refusals[pod_uid(each.pod)] += 1
            each.reject(self.name, "too few of its app")
            self._loop.call_later(_TRIED_AGAIN_SECONDS, self.handle.activate, [each.pod])

    def _waiting(self, app: str) -> list[WaitingPod]:
        pods = (each for each in self.handle.waiting_pods if each.is_waiting and self.name in each.pending_plugins)
        return [each for each in pods if each.pod.metadata.labels.get(_APP) == app]

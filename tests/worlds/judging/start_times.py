"""Start times of pods, each another one: without, kube-scheduler leaves to chance which victim is more important."""

from tests.worlds.api_server.etcd import Change
from tests.worlds.api_server.kinds import PODS, Kind
from tests.worlds.api_server.objects.timestamps import rfc3339
from tests.worlds.api_server.server import ApiServer
from tests.worlds.simulation.world import World

# A pod runs so long after it was bound.
_START_SECONDS = 1.0
_FIRST = 1_767_225_600.0


class StartTimes:
    """Lets each pod that is bound run, with a start time that no other pod has."""

    def __init__(self, world: World, model: ApiServer) -> None:
        self._world = world
        self._model = model
        self._started = 0
        model.etcd.listeners.append(self._see)

    def _see(self, kind: Kind, change: Change) -> None:
        before, after = change.before, change.after
        if kind is not PODS or before is None or after is None:
            return
        if after.value["spec"].get("nodeName") and not before.value["spec"].get("nodeName"):
            self._world.timeline.call_later(_START_SECONDS, lambda: self._start(after.key))

    def _start(self, key: str) -> None:
        item = self._model.etcd.get(PODS, key)
        if item is not None and not item.value["status"].get("startTime"):
            self._started += 1
            status = {"phase": "Running", "startTime": rfc3339(_FIRST + self._started)}
            self._model.registry.change(PODS, item, lambda pod: pod["status"].update(status))

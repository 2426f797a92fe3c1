"""A scheduler whose calls are late: it has lost the lease, and asks `serve` about pods that have gone since.

What it sent while it stood still, or was cut off, arrives when another replica has long had the pod bound, and it has
ended, or when people have deleted it.
"""

from collections import deque
from typing import ClassVar, Final

from tests.worlds.api_server.etcd import Change, Etcd
from tests.worlds.api_server.kinds import NODES, PODS, Kind
from tests.worlds.settings.other_callers import Object, OtherCaller
from tests.worlds.simulation.world import World

_SCHEDULER: Final = "default-scheduler"
# It asks about one of the last pods that have gone, so that a watch that is behind may not have shown any of it.
_MOST_GONE: Final = 3


class LateCaller(OtherCaller):
    """Asks about pods as they were when they had no node yet."""

    name: ClassVar[str] = "late-caller"

    def __init__(self, world: World, etcd: Etcd, address: str, until: float) -> None:
        super().__init__(world, etcd, address, until, preempts=False)
        # By UID.
        self._waiting: dict[str, Object] = {}
        self._gone: deque[Object] = deque(maxlen=_MOST_GONE)
        etcd.listeners.append(self._note)
        etcd.on_restore.append(self._forget)

    def _note(self, kind: Kind, change: Change) -> None:
        if kind is not PODS:
            return
        pod = change.item.value
        if change.after is None:
            if (waiting := self._waiting.pop(pod["metadata"]["uid"], None)) is not None:
                self._gone.append(waiting)
        elif not pod["spec"].get("nodeName") and pod["spec"].get("schedulerName") == _SCHEDULER:
            self._waiting[pod["metadata"]["uid"]] = pod

    def _forget(self) -> None:
        """A backup may bring some of them back."""
        self._waiting.clear()
        self._gone.clear()

    def _next_call(self) -> tuple[str, Object]:
        if not self._gone:
            return self._priority()
        nodes = [item.key for item in self._etcd.all(NODES)]
        return "filter", {"Pod": self._random.choice(self._gone), "NodeNames": nodes}

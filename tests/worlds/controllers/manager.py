"""kube-controller-manager: the controllers of a cluster, in one process with views that they share."""

from collections.abc import Callable, Collection
from typing import Final

from tests.worlds.actors.client import ActorClient
from tests.worlds.api_server import kinds
from tests.worlds.api_server.etcd import Change
from tests.worlds.api_server.kinds import Kind
from tests.worlds.api_server.server import ApiServer
from tests.worlds.controllers.daemon_sets import DaemonSetController
from tests.worlds.controllers.disruption import DisruptionController
from tests.worlds.controllers.garbage_collection import GarbageCollector
from tests.worlds.controllers.jobs import JobController
from tests.worlds.controllers.node_lifecycle import NodeLifecycleController
from tests.worlds.controllers.pod_collection import PodCollector
from tests.worlds.controllers.replica_sets import ReplicaSetController
from tests.worlds.controllers.shared_views import SharedViews
from tests.worlds.controllers.volume_binding import VolumeBinder

_CONTROLLERS: Final[dict[str, Callable[[ActorClient, SharedViews], object]]] = {
    "daemon-sets": DaemonSetController,
    "jobs": JobController,
    "node-lifecycle": NodeLifecycleController,
    "pod-collection": PodCollector,
    "replica-sets": ReplicaSetController,
    "volumes": VolumeBinder,
}
NAME: Final = "controller-manager"
# The other two look at all that is stored: when there may be something to do, and not more often than this.
_STEP_SECONDS: Final = 1.0
_COUNTED: Final = (kinds.PODS, kinds.BUDGETS, kinds.REPLICA_SETS)


class ControllerManager:
    """Runs the controllers that are named, the garbage collector, and the disruption controller."""

    def __init__(self, client: ActorClient, model: ApiServer, names: Collection[str]) -> None:
        self._client = client
        self._views = SharedViews(client)
        for name, controller in _CONTROLLERS.items():
            if name in names:
                controller(client, self._views)
        self._collector = GarbageCollector(model.registry)
        self._disruption = DisruptionController(model.registry, client.clocks.wall)
        self._may_collect = self._may_count = True
        self._etcd = model.etcd
        model.etcd.listeners.append(self._note)

    def start(self) -> None:
        """Begin to watch, and to act."""
        self._views.start()
        self._client.call_later(_STEP_SECONDS, self._step)

    def _note(self, kind: Kind, change: Change) -> None:
        """Garbage comes of deletions, and of new objects whose owners are gone; budgets count pods."""
        metadata = change.item.value["metadata"]
        is_ending = change.after is None or "deletionTimestamp" in metadata
        is_new_dependent = change.before is None and "ownerReferences" in metadata
        self._may_collect = self._may_collect or is_ending or is_new_dependent
        self._may_count = self._may_count or kind in _COUNTED

    def _step(self) -> None:
        if self._may_collect:
            self._trace("DELETE / (dependents of owners that are gone)", self._collect)
        if self._may_count:
            self._trace("PUT /apis/policy/v1/poddisruptionbudgets (status)", self._count)
        self._client.call_later(_STEP_SECONDS * self._client.random.uniform(0.5, 2.0), self._step)

    def _collect(self) -> None:
        self._may_collect = self._collector.step()

    def _count(self) -> None:
        self._may_count = False
        self._disruption.step()

    def _trace(self, what: str, act: Callable[[], None]) -> None:
        """Do something with the store itself; the history gets a line if that changes anything."""
        before = self._etcd.revision
        act()
        if self._etcd.revision != before:
            self._client.world.trace.write(self._client.name, what)

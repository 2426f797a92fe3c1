"""The views that the controllers of one process share, as informers of a shared informer factory."""

from typing import Final

from tests.worlds.actors.client import ActorClient
from tests.worlds.actors.view import View

PATHS: Final = {
    "claims": "/api/v1/persistentvolumeclaims",
    "classes": "/apis/storage.k8s.io/v1/storageclasses",
    "daemonsets": "/apis/apps/v1/daemonsets",
    "jobs": "/apis/batch/v1/jobs",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    "nodes": "/api/v1/nodes",
    "pods": "/api/v1/pods",
    "replicasets": "/apis/apps/v1/replicasets",
    "volumes": "/api/v1/persistentvolumes",
}


class SharedViews:
    """One view for each kind that is asked for. `start` begins to watch."""

    def __init__(self, client: ActorClient) -> None:
        self._client = client
        self._views: dict[str, View] = {}

    def of(self, plural: str) -> View:
        """Return the view of a kind, before `start`."""
        if plural not in self._views:
            self._views[plural] = View(self._client, PATHS[plural])
        return self._views[plural]

    def start(self) -> None:
        """Begin to list and watch all of them."""
        for view in self._views.values():
            view.start()

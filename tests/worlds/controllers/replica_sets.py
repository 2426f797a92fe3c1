"""The ReplicaSet controller: as many pods as replicas."""

from typing import Final

from tests.worlds.actors.client import ActorClient
from tests.worlds.actors.reconciler import Reconciler
from tests.worlds.controllers.owned_pods import EXPECTED_SECONDS, Object, OwnedPods, is_ready
from tests.worlds.controllers.shared_views import SharedViews

_PHASES: Final = ("Pending", "Unknown", "Running")


class ReplicaSetController:
    """Creates what is missing and deletes what is too much, by views that lag."""

    def __init__(self, client: ActorClient, views: SharedViews) -> None:
        self._client = client
        self._sets = views.of("replicasets")
        self._reconciler = Reconciler(client, self._reconcile)
        self._sets.on_change.append(lambda key, before, after: self._reconciler.add(key))
        self._pods = OwnedPods(client, views.of("pods"), "ReplicaSet", "apps/v1", self._reconciler.add)

    async def _reconcile(self, key: str) -> None:
        owner = self._sets.objects.get(key)
        if owner is None or "deletionTimestamp" in owner["metadata"]:
            return
        if self._pods.shows_all(owner):
            self._reconciler.add(key, EXPECTED_SECONDS + 1.0)
            await self._scale(owner)
        await self._report(key, owner)

    async def _scale(self, owner: Object) -> None:
        active, replicas = self._pods.active(owner), owner["spec"]["replicas"]
        for _ in range(replicas - len(active)):
            await self._pods.create(owner, owner["spec"]["template"])
        for pod in sorted(active, key=_importance)[: max(0, len(active) - replicas)]:
            await self._pods.delete(owner, pod)

    async def _report(self, key: str, owner: Object) -> None:
        active = self._pods.active(owner)
        status = {
            "replicas": len(active),
            "readyReplicas": sum(map(is_ready, active)),
            "observedGeneration": owner["metadata"]["generation"],
        }
        if status.items() <= owner.get("status", {}).items():
            return
        namespace, _, name = key.partition("/")
        path = f"/apis/apps/v1/namespaces/{namespace}/replicasets/{name}/status"
        await self._client.ask("PATCH", path, {"status": status})


def _importance(pod: Object) -> tuple[bool, int, bool, int]:
    """Pods that are deleted first come first (controller.ActivePodsWithRanks)."""
    created = pod["metadata"]["creationTimestamp"]
    younger_first = -int("".join(filter(str.isdigit, created)))
    return bool(pod["spec"].get("nodeName")), _PHASES.index(pod["status"]["phase"]), is_ready(pod), younger_first

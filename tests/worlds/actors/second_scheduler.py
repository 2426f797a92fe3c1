"""Another scheduler, which binds the pods that name it: by requests, taints, labels and ports, by a view that lags."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import Object, amounts_of, is_finished, ports_collide, selects, shortage, tolerates
from tests.worlds.actors.reconciler import Reconciler
from tests.worlds.actors.view import View

NAME: Final = "second-scheduler"
_RETRY_SECONDS: Final = 5.0


def names_it(pod: Object) -> bool:
    """Return whether a pod names this scheduler."""
    return bool(pod["spec"].get("schedulerName") == NAME)


class SecondScheduler:
    """It counts what others have bound as soon as its view shows it; so two schedulers may take the same room."""

    def __init__(self, client: ActorClient, wants: Callable[[Object], bool] = names_it) -> None:
        """`wants` returns whether it binds a pod now. When that may have changed, call `look_at_all`."""
        self._client = client
        self._wants = wants
        self._nodes, self._pods = View(client, "/api/v1/nodes"), View(client, "/api/v1/pods")
        self._reconciler = Reconciler(client, self._schedule)
        self._pods.on_change.append(self._on_pod)
        self._assumed: dict[str, tuple[str, Object]] = {}

    def start(self) -> None:
        """Begin to watch, and to bind."""
        self._nodes.start()
        self._pods.start()

    def look_at_all(self) -> None:
        """Try all pods again that wait."""
        for key, pod in self._pods.objects.items():
            self._on_pod(key, None, pod)

    def _on_pod(self, key: str, before: Object | None, after: Object | None) -> None:
        if after is None or after["spec"].get("nodeName"):
            self._assumed.pop(key, None)
        elif self._wants(after):
            self._reconciler.add(key)

    async def _schedule(self, key: str) -> None:
        pod = self._pods.objects.get(key)
        if pod is None or pod["spec"].get("nodeName") or key in self._assumed or pod["spec"].get("schedulingGates"):
            return
        if is_finished(pod) or "deletionTimestamp" in pod["metadata"] or not self._wants(pod):
            return
        pods_on = self._pods_on_nodes()
        nodes = self._nodes.objects.items()
        fitting = [name for name, node in nodes if self._fits(pod, node, pods_on.get(name, ()))]
        if not fitting:
            self._reconciler.add(key, _RETRY_SECONDS)
            return
        name = self._client.random.choice(fitting)
        self._assumed[key] = (name, pod)
        metadata = pod["metadata"]
        body = {
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": name},
        }
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
        try:
            await self._client.ask("POST", path, body)
        except RequestError:
            self._assumed.pop(key, None)
            raise

    def _pods_on_nodes(self) -> Mapping[str, Sequence[Object]]:
        """Return the pods that take room on each node, as far as it knows."""
        pods_on: dict[str, list[Object]] = {}
        for pod in self._pods.objects.values():
            if (name := pod["spec"].get("nodeName")) and not is_finished(pod):
                pods_on.setdefault(name, []).append(pod)
        for name, pod in self._assumed.values():
            pods_on.setdefault(name, []).append(pod)
        return pods_on

    def _fits(self, pod: Object, node: Object, others: Sequence[Object]) -> bool:
        taints = node["spec"].get("taints", ())
        if not selects(pod, node) or not tolerates(pod, taints, ("NoSchedule", "NoExecute")):
            return False
        allocatable = amounts_of(node["status"].get("allocatable", {}))
        return not shortage(pod, others, allocatable) and not ports_collide(pod, others)

"""The DaemonSet controller: a pod for each node that it may run on, bound by the scheduler."""

from collections.abc import Iterable
from typing import Final

from tests.worlds.actors.client import ActorClient
from tests.worlds.actors.fitting import is_finished, selects, tolerates
from tests.worlds.actors.reconciler import Reconciler
from tests.worlds.controllers.owned_pods import Object, OwnedPods
from tests.worlds.controllers.shared_views import SharedViews

_TOLERATED: Final = {
    "not-ready": "NoExecute",
    "unreachable": "NoExecute",
    "disk-pressure": "NoSchedule",
    "memory-pressure": "NoSchedule",
    "pid-pressure": "NoSchedule",
    "unschedulable": "NoSchedule",
}
# A pod that failed is replaced so much later, and twice as much for each more.
_BACKOFF_SECONDS: Final = 1.0


class DaemonSetController:
    """Each pod names its node in its node affinity."""

    def __init__(self, client: ActorClient, views: SharedViews) -> None:
        self._client = client
        self._sets = views.of("daemonsets")
        self._nodes = views.of("nodes")
        self._reconciler = Reconciler(client, self._reconcile)
        self._sets.on_change.append(lambda key, before, after: self._reconciler.add(key))
        self._nodes.on_change.append(self._on_node)
        self._pods = OwnedPods(client, views.of("pods"), "DaemonSet", "apps/v1", self._reconciler.add)
        self._failures: dict[tuple[str, str], int] = {}
        self._not_before: dict[tuple[str, str], float] = {}

    def _on_node(self, key: str, before: Object | None, after: Object | None) -> None:
        if before and after and all(_part(before, name) == _part(after, name) for name in ("labels", "taints")):
            return
        for each in self._sets.objects:
            self._reconciler.add(each)

    async def _reconcile(self, key: str) -> None:
        owner = self._sets.objects.get(key)
        if owner is None or "deletionTimestamp" in owner["metadata"] or not self._pods.shows_all(owner):
            return
        by_node: dict[str, list[Object]] = {}
        for pod in self._pods.of(owner):
            by_node.setdefault(_target(pod), []).append(pod)
        for name, pods in by_node.items():
            if name not in self._nodes.objects:
                await self._delete(owner, [pod for pod in pods if not pod["spec"].get("nodeName")])
        template = _template(owner)
        for name, node in tuple(self._nodes.objects.items()):
            pods = by_node.get(name, [])
            may_run = selects(template, node) and tolerates(template, node["spec"].get("taints", ()), ("NoExecute",))
            if not may_run:
                await self._delete(owner, pods)
            elif len(pods) != 1 or is_finished(pods[0]):
                await self._manage(key, owner, node, pods, template)

    async def _manage(self, key: str, owner: Object, node: Object, pods: list[Object], template: Object) -> None:
        """Let one pod run on a node."""
        name = node["metadata"]["name"]
        failed = [pod for pod in pods if is_finished(pod)]
        for pod in failed:
            if "deletionTimestamp" not in pod["metadata"]:
                failures = self._failures[key, name] = self._failures.get((key, name), 0) + 1
                seconds = min(900.0, _BACKOFF_SECONDS * 2.0**failures)
                self._not_before[key, name] = self._client.world.timeline.now + seconds
        await self._delete(owner, failed)
        living = sorted((pod for pod in pods if not is_finished(pod)), key=_age)
        await self._delete(owner, living[1:])
        if living or failed or not tolerates(template, node["spec"].get("taints", ()), ("NoSchedule",)):
            return
        seconds = self._not_before.get((key, name), 0.0) - self._client.world.timeline.now
        if seconds > 0.0:
            self._reconciler.add(key, seconds)
        else:
            await self._pods.create(owner, _for_node(template, name))

    async def _delete(self, owner: Object, pods: Iterable[Object]) -> None:
        for pod in pods:
            if "deletionTimestamp" not in pod["metadata"]:
                await self._pods.delete(owner, pod)


def _part(node: Object, name: str) -> object:
    return node["metadata"].get(name) if name == "labels" else node["spec"].get(name)


def _template(owner: Object) -> Object:
    """Return the template of pods for any node, with what they tolerate (daemon/util's CreatePodTemplate)."""
    template = owner["spec"]["template"]
    added = [
        {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
        for name, effect in _TOLERATED.items()
    ]
    spec = {**template["spec"], "tolerations": [*template["spec"].get("tolerations", ()), *added]}
    spec.pop("affinity", None)
    return {"metadata": template["metadata"], "spec": spec}


def _for_node(template: Object, name: str) -> Object:
    """Return the template of the pod for a node."""
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {**template, "spec": {**template["spec"], "affinity": affinity}}


def _target(pod: Object) -> str:
    """Return the node that a pod is on or for."""
    if name := pod["spec"].get("nodeName"):
        return str(name)
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def _age(pod: Object) -> tuple[bool, str, str]:
    """Pods to keep come first: those on a node, then the older."""
    return not pod["spec"].get("nodeName"), pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]

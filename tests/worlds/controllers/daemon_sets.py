"""The DaemonSet controller: a pod for each node that it may run on, bound by the scheduler."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
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
    """Each pod names its node in its node affinity. Only nodes are looked at of which something has changed."""

    def __init__(self, client: ActorClient, views: SharedViews) -> None:
        self._client = client
        self._sets = views.of("daemonsets")
        self._nodes = views.of("nodes")
        self._reconciler = Reconciler(client, self._reconcile)
        self._sets.on_change.append(self._on_set)
        self._nodes.on_change.append(self._on_node)
        views.of("pods").on_change.append(self._on_pod)
        self._pods = OwnedPods(client, views.of("pods"), "DaemonSet", "apps/v1", self._reconciler.add)
        # By UID of the set and node, and by key of the pod.
        self._pods_for: defaultdict[tuple[str, str], dict[str, Object]] = defaultdict(dict)
        # The nodes to look at, by key of the set.
        self._due: defaultdict[str, set[str]] = defaultdict(set)
        self._failures: dict[tuple[str, str], int] = {}
        self._not_before: dict[tuple[str, str], float] = {}

    def _on_set(self, key: str, before: Object | None, after: Object | None) -> None:
        if after is None:
            self._due.pop(key, None)
        else:
            self._due[key].update(self._nodes.objects, map(_target, self._pods.of(after)))
        self._reconciler.add(key)

    def _on_node(self, key: str, before: Object | None, after: Object | None) -> None:
        if before and after and all(_part(before, name) == _part(after, name) for name in ("labels", "taints")):
            return
        for each in self._sets.objects:
            self._due[each].add(key)
            self._reconciler.add(each)

    def _on_pod(self, key: str, before: Object | None, after: Object | None) -> None:
        for pod in (before, after):
            owner = None if pod is None else self._pods.owner(pod)
            if pod is not None and owner is not None:
                self._due[f"{pod['metadata']['namespace']}/{owner['name']}"].add(_target(pod))
                known = self._pods_for[owner["uid"], _target(pod)]
                if pod is after:
                    known[key] = pod
                elif after is None or (self._pods.owner(after), _target(after)) != (owner, _target(pod)):
                    known.pop(key, None)

    async def _reconcile(self, key: str) -> None:
        owner = self._sets.objects.get(key)
        if owner is None or "deletionTimestamp" in owner["metadata"] or not self._pods.shows_all(owner):
            return
        due, uid = self._due[key], owner["metadata"]["uid"]
        for name in sorted(due.difference(self._nodes.objects)):
            await self._delete(owner, [pod for pod in self._pods_on(uid, name) if not pod["spec"].get("nodeName")])
            due.discard(name)
        template = _template(owner)
        for name in [name for name in self._nodes.objects if name in due]:
            if (node := self._nodes.objects.get(name)) is not None:
                due.discard(name)
                try:
                    await self._look_at(key, owner, node, template)
                except RequestError:
                    due.add(name)
                    raise

    async def _look_at(self, key: str, owner: Object, node: Object, template: Object) -> None:
        pods = self._pods_on(owner["metadata"]["uid"], node["metadata"]["name"])
        may_run = selects(template, node) and tolerates(template, node["spec"].get("taints", ()), ("NoExecute",))
        if not may_run:
            await self._delete(owner, pods)
        elif len(pods) != 1 or is_finished(pods[0]):
            await self._manage(key, owner, node, pods, template)

    def _pods_on(self, uid: str, name: str) -> list[Object]:
        """Return the pods of a set that are on a node or for it."""
        return [*self._pods_for[uid, name].values()]

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
            self._due[key].add(name)
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

"""People with kubectl: they label, taint, cordon, drain, scale, delete, and change what pods tolerate."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import Object
from tests.worlds.actors.routines import Resume, start

Routine = Coroutine[Callable[[Resume], None], Any, None]

_PODS: Final = "/api/v1/pods"
_NAMESPACES: Final = "/api/v1/namespaces"
_NODES: Final = "/api/v1/nodes"
_SETS: Final = "/apis/apps/v1/namespaces/default/replicasets"
_BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
_OWN_TAINT: Final = "example.com/maintenance"


class People:
    """Each does one thing after another, with pauses; what they do is drawn by seed, and is over at a time.

    What is refused, they give up. They undo what keeps pods from nodes: taints, cordons.
    """

    def __init__(self, client: ActorClient, until: float) -> None:
        self._client = client
        self._until = until
        self._random = client.random
        self._pause_seconds = self._random.choice((2.0, 6.0, 20.0))
        kinds: list[Callable[[], Routine]] = [
            self._label_node, self._taint_node, self._cordon, self._drain, self._delete_pod, self._label_pod,
            self._scale, self._delete_set, self._budget, self._open_gate, self._change_class, self._tolerate,
            self._label_namespace,
        ]  # fmt: skip
        self._kinds = self._random.sample(kinds, self._random.randint(2, len(kinds)))

    def start(self) -> None:
        """Begin."""
        start(self._live())

    async def _live(self) -> None:
        while True:
            await self._client.sleep(self._random.expovariate(1 / self._pause_seconds))
            if self._now() >= self._until:
                return
            try:
                await self._random.choice(self._kinds)()
            except RequestError:
                continue

    def _now(self) -> float:
        return self._client.world.timeline.now

    async def _any(self, path: str) -> Object | None:
        """Return one of the objects that there are."""
        items: list[Object] = (await self._client.ask("GET", path))["items"]
        return self._random.choice(items) if items else None

    def _undo_later(self, undo: Callable[[], Routine]) -> None:
        """Undo something after a while, and before the end; again until it is done."""
        seconds = self._random.choice((1.0, 10.0, 60.0)) * self._random.uniform(0.5, 1.5)

        async def until_done() -> None:
            while True:
                try:
                    await undo()
                except RequestError as error:
                    if error.status == 404:
                        return
                    await self._client.sleep(2.0)
                else:
                    return

        self._client.call_later(max(0.0, min(seconds, self._until - self._now())), lambda: start(until_done()))

    # Nodes:

    async def _label_node(self) -> None:
        node = await self._any(_NODES)
        if node is not None:
            labels = {"disk": self._random.choice(("ssd", "hdd", None))}
            await self._client.ask("PATCH", f"{_NODES}/{node['metadata']['name']}", {"metadata": {"labels": labels}})

    async def _taint_node(self) -> None:
        node = await self._any(_NODES)
        if node is None:
            return
        name, effect = node["metadata"]["name"], self._random.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
        self._undo_later(partial(self._set_taint, name, None))
        await self._set_taint(name, effect)

    async def _set_taint(self, name: str, effect: str | None) -> None:
        node = await self._client.ask("GET", f"{_NODES}/{name}")
        taints = [taint for taint in node["spec"].get("taints", ()) if taint["key"] != _OWN_TAINT]
        if effect is not None:
            taints.append({"key": _OWN_TAINT, "effect": effect})
        metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
        await self._client.ask("PATCH", f"{_NODES}/{name}", {"metadata": metadata, "spec": {"taints": taints}})

    async def _cordon(self) -> None:
        if (node := await self._any(_NODES)) is not None:
            name = node["metadata"]["name"]
            self._undo_later(partial(self._set_unschedulable, name, is_cordoned=False))
            await self._set_unschedulable(name, is_cordoned=True)

    async def _drain(self) -> None:
        """Cordon a node, and evict its pods; what a budget protects is tried again for a while."""
        node = await self._any(_NODES)
        if node is None:
            return
        name = node["metadata"]["name"]
        self._undo_later(partial(self._set_unschedulable, name, is_cordoned=False))
        await self._set_unschedulable(name, is_cordoned=True)
        pods = await self._client.ask("GET", _PODS, query={"fieldSelector": f"spec.nodeName={name}"})
        for pod in pods["items"]:
            if any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ())):
                continue
            start(self._evict(pod))

    async def _evict(self, pod: Object) -> None:
        for _ in range(5):
            try:
                body = {"metadata": {"name": pod["metadata"]["name"]}}
                await self._client.ask("POST", f"{_path(pod)}/eviction", body)
            except RequestError as error:
                if error.status != 429:
                    return
                await self._client.sleep(5.0)
            else:
                return

    async def _set_unschedulable(self, name: str, *, is_cordoned: bool) -> None:
        await self._client.ask("PATCH", f"{_NODES}/{name}", {"spec": {"unschedulable": is_cordoned or None}})

    # Namespaces, pods and their owners:

    async def _label_namespace(self) -> None:
        if (namespace := await self._any(_NAMESPACES)) is not None:
            labels = {"color": self._random.choice(("red", "blue", None))}
            path = f"{_NAMESPACES}/{namespace['metadata']['name']}"
            await self._client.ask("PATCH", path, {"metadata": {"labels": labels}})

    async def _delete_pod(self) -> None:
        if (pod := await self._any(_PODS)) is not None:
            body = self._random.choice(({}, {}, {"gracePeriodSeconds": 0}))
            await self._client.ask("DELETE", _path(pod), body)

    async def _label_pod(self) -> None:
        if (pod := await self._any(_PODS)) is not None and "ownerReferences" not in pod["metadata"]:
            labels = {"app": f"app-{self._random.randrange(3)}"}
            await self._client.ask("PATCH", _path(pod), {"metadata": {"labels": labels}})

    async def _tolerate(self) -> None:
        if (pod := await self._any(_PODS)) is not None:
            added = {"key": _OWN_TAINT, "operator": "Exists"}
            tolerations = [*pod["spec"].get("tolerations", ()), added]
            if added not in pod["spec"].get("tolerations", ()):
                await self._client.ask("PATCH", _path(pod), {"spec": {"tolerations": tolerations}})

    async def _open_gate(self) -> None:
        gated = [pod for pod in (await self._client.ask("GET", _PODS))["items"] if "schedulingGates" in pod["spec"]]
        if gated:
            pod = self._random.choice(gated)
            del pod["spec"]["schedulingGates"]
            await self._client.ask("PUT", _path(pod), pod)

    async def _scale(self) -> None:
        if (found := await self._any(_SETS)) is not None:
            replicas = {"spec": {"replicas": self._random.randrange(8)}}
            await self._client.ask("PATCH", f"{_SETS}/{found['metadata']['name']}", replicas)

    async def _delete_set(self) -> None:
        if self._random.random() < 0.3 and (found := await self._any(_SETS)) is not None:
            policy = self._random.choice(("Background", "Foreground", "Orphan"))
            path = f"{_SETS}/{found['metadata']['name']}"
            await self._client.ask("DELETE", path, {"propagationPolicy": policy})

    async def _budget(self) -> None:
        """Make a budget, or delete one."""
        if self._random.random() < 0.4:
            if (found := await self._any(_BUDGETS)) is not None:
                await self._client.ask("DELETE", f"{_BUDGETS}/{found['metadata']['name']}")
            return
        app = f"app-{self._random.randrange(3)}"
        amount = {self._random.choice(("minAvailable", "maxUnavailable")): self._random.choice((0, 1, 2, "50%"))}
        spec = {"selector": {"matchLabels": {"app": app}}, **amount}
        await self._client.ask("POST", _BUDGETS, {"metadata": {"name": f"budget-of-{app}"}, "spec": spec})

    async def _change_class(self) -> None:
        """Delete a priority class and make it again with another value, as values are immutable."""
        found = await self._any(_CLASSES)
        if found is None or found["metadata"]["name"].startswith("system-"):
            return
        name = found["metadata"]["name"]
        await self._client.ask("DELETE", f"{_CLASSES}/{name}")
        policy = {"preemptionPolicy": "Never"} if found["preemptionPolicy"] == "Never" else {}
        self._undo_later(partial(self._make_class, name, {"value": self._random.randrange(-5, 50), **policy}))

    async def _make_class(self, name: str, content: Object) -> None:
        try:
            await self._client.ask("POST", _CLASSES, {"metadata": {"name": name}, **content})
        except RequestError as error:
            if error.status != 409:
                raise


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"

"""A cluster autoscaler: machines for pods that fit nowhere, and none for nodes that stay idle."""

from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import Object, Room, amounts_of, is_finished, selects, shortage, tolerates
from tests.worlds.actors.machines import Machines
from tests.worlds.actors.routines import start
from tests.worlds.actors.view import View

_PERIOD_SECONDS: Final = 10.0
_IDLE_SECONDS: Final = 60.0
_TAINT: Final = "ToBeDeletedByClusterAutoscaler"
_MOST_AT_ONCE: Final = 3


class Autoscaler:
    """Adds machines like a template up to a number; removes those that it added, until a time."""

    def __init__(self, client: ActorClient, machines: Machines, template: Object, most: int, until: float) -> None:
        self._client = client
        self._machines = machines
        self._template = template
        self._allocatable = amounts_of(template["status"]["allocatable"])
        self._most = most
        self._until = until
        self._nodes, self._pods = View(client, "/api/v1/nodes"), View(client, "/api/v1/pods")
        self._added = 0
        self._own: list[str] = []
        self._idle_since: dict[str, float] = {}

    def start(self) -> None:
        """Begin to watch, and to act."""
        self._nodes.start()
        self._pods.start()
        self._client.call_later(_PERIOD_SECONDS, lambda: start(self._act()))

    async def _act(self) -> None:
        if self._nodes.is_synced and self._pods.is_synced:
            self._grow()
            if self._client.world.timeline.now < self._until:
                await self._shrink()
        self._client.call_later(_PERIOD_SECONDS, lambda: start(self._act()))

    def _grow(self) -> None:
        """Add machines for pods that wait, if those that were added before are there and have no room for them."""
        if any(name not in self._nodes.objects for name in self._own):
            return
        waiting = [pod for pod in self._pods.objects.values() if self._waits(pod)]
        rooms = [Room(self._allocatable, self._on(name)) for name in self._own]
        for pod in waiting:
            room = next((room for room in rooms if not room.shortage(pod)), None)
            if room is None:
                room = Room(self._allocatable, ())
                rooms.append(room)
            room.take(pod)
        missing = len(rooms) - len(self._own)
        for _ in range(min(missing, _MOST_AT_ONCE, self._most - len(self._own))):
            self._add()

    def _on(self, name: str) -> list[Object]:
        pods = self._pods.objects.values()
        return [pod for pod in pods if pod["spec"].get("nodeName") == name and not is_finished(pod)]

    def _waits(self, pod: Object) -> bool:
        """Whether a scheduler found no node for a pod, and it would fit on an empty node like the template."""
        if pod["spec"].get("nodeName") or is_finished(pod) or "deletionTimestamp" in pod["metadata"]:
            return False
        conditions = pod["status"].get("conditions", ())
        if not any(each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable" for each in conditions):
            return False
        taints = self._template["spec"].get("taints", ())
        fits = not shortage(pod, (), self._allocatable) and tolerates(pod, taints, ("NoSchedule", "NoExecute"))
        return fits and selects(pod, self._template)

    def _add(self) -> None:
        self._added += 1
        name = f"added-{self._added}"
        metadata = self._template["metadata"]
        labels = {**metadata["labels"], "kubernetes.io/hostname": name}
        node = {**self._template, "metadata": {**metadata, "name": name, "labels": labels}}
        self._own.append(name)
        self._client.call_later(self._client.random.uniform(5.0, 40.0), lambda: self._machines.add(node))

    async def _shrink(self) -> None:
        """Remove a machine that had only pods of DaemonSets for a time."""
        now = self._client.world.timeline.now
        used = {
            pod["spec"].get("nodeName")
            for pod in self._pods.objects.values()
            if not is_finished(pod) and not _is_of_daemon_set(pod)
        }
        for name in [name for name in self._own if name in self._nodes.objects]:
            if name in used:
                self._idle_since.pop(name, None)
            elif now > self._idle_since.setdefault(name, now) + _IDLE_SECONDS:
                try:
                    await self._remove(name)
                except RequestError:
                    return  # the next round tries again

    async def _remove(self, name: str) -> None:
        """Taint the node, wait a little, and let machine and node go."""
        node = self._nodes.objects.get(name)
        if node is None:
            return
        taints = [taint for taint in node["spec"].get("taints", ()) if taint["key"] != _TAINT]
        body = {"spec": {"taints": [*taints, {"key": _TAINT, "effect": "NoSchedule"}]}}
        await self._client.ask("PATCH", f"/api/v1/nodes/{name}", body)
        await self._client.sleep(self._client.random.uniform(1.0, 10.0))
        if name in self._machines.names:
            self._machines.remove(name)
        await self._client.ask("DELETE", f"/api/v1/nodes/{name}")
        self._own.remove(name)
        self._idle_since.pop(name, None)


def _is_of_daemon_set(pod: Object) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))

"""Node lifecycle: nodes that say nothing any more become Unknown, conditions become taints, and taints evict pods.

It does what nodelifecycle and tainteviction of kube-controller-manager do, but for zones and rate limits: while no node
at all is ready, none gets a taint that evicts.
"""

from typing import Final

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import Object, is_finished, tolerations_of
from tests.worlds.actors.reconciler import Reconciler
from tests.worlds.api_server.objects.timestamps import parse, rfc3339
from tests.worlds.controllers.owned_pods import is_ready
from tests.worlds.controllers.shared_views import SharedViews
from tests.worlds.simulation.timeline import NEVER

_MONITOR_SECONDS: Final = 5.0
_GRACE_SECONDS: Final = 40.0
_STARTUP_SECONDS: Final = 60.0
_PREFIX: Final = "node.kubernetes.io/"
_OF_READY: Final = {"False": "not-ready", "Unknown": "unreachable"}
# The taints that this controller sets and removes.
_OWN: Final = ("not-ready", "unreachable", "memory-pressure", "unschedulable")


class NodeLifecycleController:
    """`grace_seconds` is --node-monitor-grace-period."""

    def __init__(self, client: ActorClient, views: SharedViews, grace_seconds: float = _GRACE_SECONDS) -> None:
        self._client = client
        self._grace_seconds = grace_seconds
        self._nodes, self._leases, self._pods = views.of("nodes"), views.of("leases"), views.of("pods")
        self._heard: dict[str, tuple[str, float]] = {}
        self._by_node: dict[str, dict[str, None]] = {}
        self._tainter = Reconciler(client, self._taint)
        self._evicter = Reconciler(client, self._evict)
        self._nodes.on_change.append(self._on_node)
        self._pods.on_change.append(self._on_pod)
        client.call_later(_MONITOR_SECONDS, self._monitor)

    def _on_node(self, name: str, before: Object | None, after: Object | None) -> None:
        self._tainter.add(name)
        if _taints(before) != _taints(after):
            for key in self._by_node.get(name, ()):
                self._evicter.add(key)

    def _on_pod(self, key: str, before: Object | None, after: Object | None) -> None:
        for pod in (before, after):
            if pod is not None and (name := pod["spec"].get("nodeName")):
                keys = self._by_node.setdefault(name, {})
                if pod is after:
                    keys[key] = None
                else:
                    keys.pop(key, None)
        if after is not None and after["spec"].get("nodeName"):
            self._evicter.add(key)

    # From silence to the condition:

    def _monitor(self) -> None:
        for name, node in self._nodes.objects.items():
            if self._is_silent(name, node) and _status(node, "Ready") != "Unknown":
                self._tainter.add(name)
        for name in [name for name in self._heard if name not in self._nodes.objects]:
            del self._heard[name]
        self._client.call_later(_MONITOR_SECONDS, self._monitor)

    def _is_silent(self, name: str, node: Object) -> bool:
        """Whether neither the node's lease nor its conditions were renewed for too long."""
        now, lease = self._client.world.timeline.now, self._leases.objects.get(f"kube-node-lease/{name}", {})
        beats = [entry.get("lastHeartbeatTime", "") for entry in node["status"].get("conditions", ())]
        said = " ".join((node["metadata"]["uid"], lease.get("spec", {}).get("renewTime", ""), *beats))
        if name not in self._heard or self._heard[name][0] != said:
            # A node that is not ready yet gets longer.
            extra = 0.0 if _status(node, "Ready") == "True" else _STARTUP_SECONDS - _GRACE_SECONDS
            self._heard[name] = (said, now + extra)
        return now > self._heard[name][1] + self._grace_seconds

    # From conditions to taints:

    async def _taint(self, name: str) -> None:
        node = self._nodes.objects.get(name)
        if node is None:
            return
        if self._is_silent(name, node) and _status(node, "Ready") != "Unknown":
            await self._mark_unknown(name)
            return  # the view will show it
        wanted = self._wanted(node)
        present = {(taint["key"], taint["effect"]): taint for taint in node["spec"].get("taints", ())}
        own = [entry for entry in present if entry[0] in {_PREFIX + each for each in _OWN}]
        if {*own} != {*wanted}:
            now = rfc3339(self._client.clocks.wall())
            kept = [taint for entry, taint in present.items() if entry not in own or entry in wanted]
            added = [{"key": key, "effect": effect, **({"timeAdded": now} if effect == "NoExecute" else {})}
                     for key, effect in wanted if (key, effect) not in present]  # fmt: skip
            metadata = {"resourceVersion": node["metadata"]["resourceVersion"]}
            body = {"metadata": metadata, "spec": {"taints": [*kept, *added]}}
            await self._client.ask("PATCH", f"/api/v1/nodes/{name}", body)
        if _status(node, "Ready") in _OF_READY:
            await self._mark_pods(name)

    def _wanted(self, node: Object) -> list[tuple[str, str]]:
        wanted = []
        if taint := _OF_READY.get(_status(node, "Ready")):
            wanted.append((_PREFIX + taint, "NoSchedule"))
            if any(_status(each, "Ready") == "True" for each in self._nodes.objects.values()):
                wanted.append((_PREFIX + taint, "NoExecute"))
        if _status(node, "MemoryPressure") == "True":
            wanted.append((_PREFIX + "memory-pressure", "NoSchedule"))
        if node["spec"].get("unschedulable"):
            wanted.append((_PREFIX + "unschedulable", "NoSchedule"))
        return wanted

    async def _mark_unknown(self, name: str) -> None:
        now = rfc3339(self._client.clocks.wall())
        conditions = [
            {"type": kind, "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": now}
            for kind in ("MemoryPressure", "Ready")
        ]
        await self._client.ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": conditions}})

    async def _mark_pods(self, name: str) -> None:
        """Say that the pods of a node are not ready, since it is not."""
        for key in tuple(self._by_node.get(name, ())):
            pod = self._pods.objects.get(key)
            if pod is None or not is_ready(pod):
                continue
            now = rfc3339(self._client.clocks.wall())
            condition = {"type": "Ready", "status": "False", "lastTransitionTime": now}
            body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}
            try:
                await self._client.ask("PATCH", f"{_path(pod)}/status", body)
            except RequestError as error:
                if error.status not in (404, 409, 422):
                    raise

    # From taints to evictions:

    async def _evict(self, key: str) -> None:
        pod = self._pods.objects.get(key)
        if pod is None or "deletionTimestamp" in pod["metadata"] or is_finished(pod):
            return
        # A pod that was made again under the name of one on a node may be on none.
        node = self._nodes.objects.get(pod["spec"].get("nodeName", ""))
        taints = [taint for taint in _taints(node) if taint["effect"] == "NoExecute"]
        at = min((self._evicted_at(pod, taint) for taint in taints), default=NEVER)
        if at == NEVER:
            return
        seconds = at - self._client.clocks.wall()
        if seconds > 0.0:
            self._evicter.add(key, seconds + 1.0)
            return
        try:
            await self._client.ask("DELETE", _path(pod), {"preconditions": {"uid": pod["metadata"]["uid"]}})
        except RequestError as error:
            if error.status not in (404, 409):
                raise

    def _evicted_at(self, pod: Object, taint: Object) -> float:
        """Return when a pod goes because of a taint, in seconds since 1970; infinite if it stays."""
        found = tolerations_of(pod, taint)
        if not found:
            return 0.0
        seconds = [float(entry["tolerationSeconds"]) for entry in found if "tolerationSeconds" in entry]
        since = parse(taint["timeAdded"]) if "timeAdded" in taint else self._client.clocks.wall()
        return since + min(seconds) if seconds else NEVER


def _status(node: Object, kind: str) -> str:
    conditions = node["status"].get("conditions", ())
    return next((str(entry["status"]) for entry in conditions if entry["type"] == kind), "")


def _taints(node: Object | None) -> list[Object]:
    return [] if node is None else [*node["spec"].get("taints", ())]


def _path(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"

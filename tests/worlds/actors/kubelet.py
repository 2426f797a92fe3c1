"""A kubelet: it registers its node, renews its lease, and runs the pods of its node.

What it does with a pod: refuse it (OutOfcpu and others, kubelet/lifecycle/predicate.go), start it, report that it is
ready, let it fail and come back or finish, and end it in its grace period when it is deleted.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tests.worlds.actors.client import ActorClient, RequestError
from tests.worlds.actors.fitting import (
    Object,
    amounts_of,
    is_finished,
    ports_collide,
    requests_of,
    selects,
    shortage,
    tolerates,
)
from tests.worlds.actors.reconciler import Reconciler
from tests.worlds.actors.resizing import ContainerResources
from tests.worlds.actors.routines import Resume, start
from tests.worlds.actors.view import View
from tests.worlds.api_server.objects.timestamps import micro_time, rfc3339
from tests.worlds.simulation.served_model import ServedModel
from tests.worlds.simulation.timeline import NEVER
from tests.worlds.simulation.world import World

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_CSI_NODES: Final = "/apis/storage.k8s.io/v1/csinodes"
# The driver of volumes, and how many of its volumes can be attached to a node: an annotation of worlds.
DRIVER: Final = "csi.example.com"
VOLUME_LIMIT: Final = "example.com/volume-limit"
_LEASE_SECONDS: Final = 40
_RENEW_SECONDS: Final = 10.0
# So often it looks at its node, and reports its status if that has changed; and so often in any case.
_STATUS_SECONDS: Final = 10.0
_REPORT_SECONDS: Final = 300.0


@dataclass
class _LocalPod:
    """A pod that the kubelet saw, and when what happens to it.

    `end` is how it ended: the phase, and the status' reason and message. `reported` is the status that was sent last.
    `resources` is what its containers have, and `started` its start time, if the kubelet reports these.
    """

    pod: Object
    ready_at: float
    ends_at: float = NEVER
    fails: bool = False
    unready_from: float = NEVER
    unready_until: float = NEVER
    stops_at: float = NEVER
    end: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()
    resources: ContainerResources | None = None
    started: str = ""

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])


class Kubelet:
    """The kubelet of a machine, from when it starts until `stop`. `node` is the Node as it registers it.

    `is_tainted_first`: the node is registered with the taint not-ready, which admission sets where node lifecycle runs.
    """

    def __init__(
        self,
        world: World,
        servers: Sequence[ServedModel],
        node: Object,
        start: int = 1,
        *,
        is_tainted_first: bool = False,
    ) -> None:
        """`start` counts the kubelets of this name."""
        self.client = ActorClient(world, servers, f"kubelet-{node['metadata']['name']}", start)
        self._node = node
        self._name: str = node["metadata"]["name"]
        self._random = self.client.random
        self._allocatable = amounts_of(node["status"]["allocatable"])
        self._devices: dict[str, str] = {}
        self._is_tainted_first = is_tainted_first
        self._is_under_pressure = False
        self._is_ready = False
        self._reports_resources = False
        self._reports_starts = False
        self._last_start = 0.0
        self._pods = View(self.client, "/api/v1/pods", f"spec.nodeName={self._name}")
        self._nodes = View(self.client, "/api/v1/nodes", f"metadata.name={self._name}")
        self._local: dict[str, _LocalPod] = {}
        self._reconciler = Reconciler(self.client, self._sync)
        self._pods.on_change.append(lambda key, before, after: self._reconciler.add(key))

    def withhold(self, resource: str) -> str | None:
        """Register without an extended resource, whose device plugin is not there yet; return its amount, if any.

        Call it before `start`.
        """
        amount: str | None = self._node["status"]["allocatable"].get(resource)
        if amount is not None:
            self._devices[resource] = "0"
            self._describe({name: text for name, text in self._offered().items() if name != resource})
        return amount

    def offer(self, resource: str, amount: str) -> None:
        """Report another amount of an extended resource from now on, as its device plugin does."""
        self._devices[resource] = amount
        self._describe({**self._offered(), resource: amount})
        if self._is_ready:
            start(self._until_done(self._report))

    def report_resources(self) -> None:
        """Report what containers have, while pods are resized, too. Call it before `start`."""
        self._reports_resources = True

    def report_start_times(self) -> None:
        """Report when pods were started, too, and that they are about to run. Call it before `start`."""
        self._reports_starts = True

    def start(self) -> None:
        """Register, then run pods."""
        start(self._run())

    def stop(self) -> None:
        """End: the process is gone."""
        self.client.stop()

    def evict(self) -> None:
        """Evict the pod of the least priority, and report that memory is short for a minute."""
        running = [(key, local) for key, local in self._local.items() if not local.end]
        if not running or not self._is_ready:
            return
        key, victim = min(running, key=lambda entry: (entry[1].pod["spec"].get("priority", 0), entry[0]))
        victim.end = ("Failed", "Evicted", "The node was low on resource: memory.")
        self._reconciler.add(key)
        self._is_under_pressure = True
        start(self._report_for(60.0))

    # The node:

    async def _run(self) -> None:
        await self._until_done(self._register)
        self._nodes.start()
        self._pods.start()
        start(self._until_done(self._register_driver))
        start(self._renew())
        await self.client.sleep(self._random.uniform(0.2, 5.0))
        self._is_ready = True
        reported_at = -_REPORT_SECONDS
        while True:
            now = self.client.world.timeline.now
            if now >= reported_at + _REPORT_SECONDS or self._is_described_wrongly():
                await self._until_done(self._report)
                reported_at = now
            await self.client.sleep(_STATUS_SECONDS)

    def _is_described_wrongly(self) -> bool:
        """Whether the node says something else of itself in the API server, such as that it is Unknown."""
        node = self._nodes.objects.get(self._name)
        if node is None:
            return False
        own, found = ({entry["type"]: entry["status"] for entry in conditions}
                      for conditions in (self._conditions(), node["status"].get("conditions", ())))  # fmt: skip
        return own != found

    async def _until_done(self, step: Callable[[], Coroutine[Callable[[Resume], None], Any, None]]) -> None:
        """Do something until it is not refused."""
        while True:
            try:
                await step()
            except RequestError:
                await self.client.sleep(self._random.uniform(1.0, 7.0))
            else:
                return

    async def _register(self) -> None:
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        spec = {**self._node.get("spec", {}), **({"taints": [taint]} if self._is_tainted_first else {})}
        node = {**self._node, "spec": spec, "status": {**self._node["status"], "conditions": self._conditions()}}
        try:
            await self.client.ask("POST", "/api/v1/nodes", node)
        except RequestError as error:
            if error.status != 409:
                raise
            await self._report()  # it is there: as it was left, or another kubelet has its name

    async def _register_driver(self) -> None:
        """Say how many volumes can be attached here, in a CSINode, if the node says so in an annotation."""
        limit = self._node["metadata"].get("annotations", {}).get(VOLUME_LIMIT)
        if limit is None:
            return
        node = await self.client.ask("GET", f"/api/v1/nodes/{self._name}")
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]}
        driver = {"name": DRIVER, "nodeID": self._name, "topologyKeys": [], "allocatable": {"count": int(limit)}}
        csi_node = {"metadata": {"name": self._name, "ownerReferences": [owner]}, "spec": {"drivers": [driver]}}
        try:
            await self.client.ask("POST", _CSI_NODES, csi_node)
        except RequestError as error:
            if error.status != 409:
                raise

    def _offered(self) -> dict[str, str]:
        offered: dict[str, str] = self._node["status"]["allocatable"]
        return offered

    def _describe(self, offered: dict[str, str]) -> None:
        self._node = {**self._node, "status": {**self._node["status"], "capacity": offered, "allocatable": offered}}
        self._allocatable = amounts_of(offered)

    async def _report(self) -> None:
        status = {**self._node["status"], "conditions": self._conditions()}
        if self._devices:  # a kubelet says that there are none until their plugin has registered
            offered = {**self._offered(), **self._devices}
            status.update(capacity=offered, allocatable=offered)
        await self.client.ask("PATCH", f"/api/v1/nodes/{self._name}/status", {"status": status})

    async def _report_for(self, seconds: float) -> None:
        """Report that memory is short, and after a time that it is not."""
        await self._until_done(self._report)
        await self.client.sleep(seconds)
        self._is_under_pressure = False
        await self._until_done(self._report)

    def _conditions(self) -> list[Object]:
        now = rfc3339(self.client.clocks.wall())
        ready = ("True", "KubeletReady") if self._is_ready else ("False", "KubeletNotReady")
        pressure = (
            ("True", "KubeletHasInsufficientMemory")
            if self._is_under_pressure
            else ("False", "KubeletHasSufficientMemory")
        )
        return [
            {"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now}
            for kind, (status, reason) in (("MemoryPressure", pressure), ("Ready", ready))
        ]

    async def _renew(self) -> None:
        """Renew the lease every ten seconds."""
        lease: Object | None = None
        while True:
            try:
                lease = await self._put_lease(lease)
            except RequestError:
                lease = None  # it is read again
            await self.client.sleep(_RENEW_SECONDS * self._random.uniform(1.0, 1.04))

    async def _put_lease(self, lease: Object | None) -> Object:
        path = f"{_LEASES}/{self._name}"
        if lease is None:
            try:
                lease = await self.client.ask("GET", path)
            except RequestError as error:
                if error.status != 404:
                    raise
        renewed = micro_time(self.client.clocks.wall())
        spec = {"holderIdentity": self._name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": renewed}
        if lease is not None:
            return await self.client.ask("PUT", path, {**lease, "spec": spec})
        node = await self.client.ask("GET", f"/api/v1/nodes/{self._name}")
        owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": node["metadata"]["uid"]}
        metadata = {"name": self._name, "ownerReferences": [owner]}
        return await self.client.ask("POST", _LEASES, {"metadata": metadata, "spec": spec})

    # Its pods:

    async def _sync(self, key: str) -> None:
        """Do the next thing with a pod."""
        pod, local = self._pods.objects.get(key), self._local.get(key)
        if local is not None and (pod is None or pod["metadata"]["uid"] != local.uid):
            del self._local[key]
            local = None
        if pod is None:
            return
        is_deleted = "deletionTimestamp" in pod["metadata"]
        if is_finished(pod) or (local is None and is_deleted):
            if local is not None and not local.end:
                local.end = (pod["status"]["phase"],)
            if is_deleted:
                await self._remove(pod)
            return
        if local is None:
            local = self._local[key] = self._take(pod)
        local.pod = pod
        if is_deleted and local.stops_at == NEVER:
            grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            local.stops_at = self.client.world.timeline.now + min(grace, self._random.expovariate(1 / 3.0))
        await self._go_on(key, local)

    async def _go_on(self, key: str, local: _LocalPod) -> None:
        """Report what has become of a pod by now, and come back when the next thing is due."""
        now = self.client.world.timeline.now
        if not local.end and now >= min(local.ends_at, local.stops_at):
            local.end = ("Failed" if local.fails else "Succeeded",)
        if local.end:
            await self._send(local, *local.end)
            if now >= local.stops_at:
                await self._remove(local.pod)
            return
        times = [local.ready_at, local.ends_at, local.unready_from, local.unready_until, local.stops_at]
        if local.resources is not None:
            local.resources.follow(local.pod, now, self._random)
            times.append(local.resources.next_at)
        next_at = min((at for at in times if at > now), default=NEVER)
        if next_at < NEVER:
            self._reconciler.add(key, next_at - now + 1e-6)
        if now >= local.ready_at:
            is_ready = not local.unready_from <= now < local.unready_until
            await self._send(local, "Running", is_ready=is_ready)
        elif local.started and "startTime" not in local.pod["status"]:
            await self._send(local, "Pending")

    def _take(self, pod: Object) -> _LocalPod:
        """Draw what will become of a pod that came."""
        now, draw = self.client.world.timeline.now, self._random
        local = _LocalPod(pod, now + draw.uniform(0.3, 4.0))
        if self._reports_resources:
            local.resources = ContainerResources(pod)
        if self._reports_starts:
            local.started = pod["status"].get("startTime") or self._start_time()
        if refusal := self._refusal(pod):
            local.end = ("Failed", *refusal)
        elif pod["spec"]["restartPolicy"] != "Always":
            local.ends_at = local.ready_at + draw.expovariate(1 / 40.0)
            local.fails = draw.random() < 0.15
        elif draw.random() < 0.1:
            local.unready_from = local.ready_at + draw.expovariate(1 / 60.0)
            local.unready_until = local.unready_from + draw.uniform(1.0, 30.0)
        return local

    def _start_time(self) -> str:
        """Return the time of now, or a second after that of the pod before: of two victims with the same start time,
        kube-scheduler leaves to chance which one goes first."""
        self._last_start = max(self.client.clocks.wall(), self._last_start + 1.0)
        return rfc3339(self._last_start)

    def _refusal(self, pod: Object) -> tuple[str, ...]:
        """Return reason and message if the pod cannot run here beside those that do; empty if it can."""
        others = [local.pod for local in self._local.values() if not local.end]
        if name := shortage(pod, others, self._allocatable):
            asked = requests_of(pod).get(name, 1)
            text = f"Node didn't have enough resource: {name}, requested: {asked}, capacity: {self._allocatable[name]}"
            return f"OutOf{name}", f"Pod was rejected: {text}"
        node = self._nodes.objects.get(self._name, self._node)
        checks = {
            "NodeAffinity": selects(pod, node),
            "NodePorts": not ports_collide(pod, others),
            "TaintToleration": tolerates(pod, node.get("spec", {}).get("taints", ()), ("NoExecute",)),
        }
        for name, is_right in checks.items():
            if not is_right:
                return name, f"Pod was rejected: Predicate {name} failed"
        return ()

    async def _send(
        self, local: _LocalPod, phase: str, reason: str = "", message: str = "", *, is_ready: bool = False
    ) -> None:
        """Report a pod's status, if it is another than before."""
        ready = "True" if is_ready else "False"
        containers = local.resources.statuses() if local.resources is not None and phase == "Running" else []
        reported = (phase, ready, reason, msgspec.json.encode(containers).decode())
        if local.reported == reported:
            return
        now = rfc3339(self.client.clocks.wall())
        conditions = [
            {"type": kind, "status": ready, "lastTransitionTime": now} for kind in ("ContainersReady", "Ready")
        ]
        status: Object = {"phase": phase, "conditions": conditions}
        if reason:
            status.update(reason=reason, message=message)
        if containers:
            status["containerStatuses"] = containers
        if local.started:
            status["startTime"] = local.started
        metadata = local.pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        await self.client.ask("PATCH", path, {"metadata": {"uid": local.uid}, "status": status})
        local.reported = reported

    async def _remove(self, pod: Object) -> None:
        """Let a pod go whose containers have ended."""
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        try:
            await self.client.ask("DELETE", path, body)
        except RequestError as error:
            if error.status not in (404, 409):
                raise

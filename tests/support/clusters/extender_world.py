"""A service with its cluster, its clock and its callers, for tests of the verbs."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import msgspec

from extender_service.cluster.amounts.dimensions import CPU_MILLI
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import default_config
from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.extender.app import create_app
from extender_service.extender.modes import Mode
from extender_service.extender.overload.overload import CallLimits, Load
from extender_service.extender.reporting.observation import Observation
from extender_service.extender.service import ExtenderService
from extender_service.extender.trust import Trust
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Plugin
from extender_service.framework.profile import Profile
from extender_service.framework.profiles import Profiles
from extender_service.framework.registry.registry import Registry
from extender_service.kube.api_errors import ApiError, ApiStatus, KubeError
from extender_service.kube.types.core import Node, Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeClaim
from extender_service.kube.writing.event_recorder import Occurrence
from extender_service.plugins.default_binder import DefaultBinder
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.scheduling.engine import Engine
from tests.support.clock import Clock


class Hold:
    """A place where binds wait: tells when one has arrived, until it may go on."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.go_on = asyncio.Event()


class Pods:
    """The API server's part in reading and binding pods, with faults on demand.

    A bind raises what is next in `bind_errors`, after it was applied if `applies` is true. `hold` makes binds wait,
    `read_hold` reads that know already what they will answer.
    """

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.bound: list[tuple[str, str, str, str]] = []
        self.reads = 0
        self.bind_errors: list[KubeError] = []
        self.read_errors: list[KubeError] = []
        self.applies = True
        self.hold: Hold | None = None
        self.read_hold: Hold | None = None

    def put(self, pod: Pod, node_name: str | None = None) -> Pod:
        if node_name is not None:
            pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))
        self.pods[pod.metadata.namespace, pod.metadata.name] = pod
        return pod

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        self.reads += 1
        if self.read_errors:
            raise self.read_errors.pop(0)
        pod = self.pods.get((namespace, name))
        if self.read_hold is not None:
            self.read_hold.arrived.set()
            await self.read_hold.go_on.wait()
        return pod

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        self.bound.append((namespace, name, uid, node_name))
        if self.hold is not None:
            self.hold.arrived.set()
            await self.hold.go_on.wait()
        pod = self.pods.get((namespace, name))
        if pod is None:
            raise ApiError(ApiStatus(404, "NotFound", f'pods "{name}" not found'))
        if pod_uid(pod) != uid:
            raise ApiError(ApiStatus(409, "Conflict", "the UID in the precondition is another"))
        if pod.spec.node_name:
            raise ApiError(ApiStatus(409, "Conflict", f"pod {name} is already assigned to node {pod.spec.node_name}"))
        if self.applies:
            self.put(pod, node_name)
        if self.bind_errors:
            raise self.bind_errors.pop(0)

    async def write_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """No test here has pods with claims to bind."""
        raise AssertionError("no pod of these tests has a volume")

    async def write_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """No test here has pods with claims to bind."""
        raise AssertionError("no pod of these tests has a volume")


class ExtenderWorld:
    """A service in one of its modes, following an API server unless `is_live` is false, with the default plugins."""

    def __init__(
        self,
        *nodes: Node,
        mode: Mode = "beside",
        is_live: bool = True,
        plugins: Mapping[str, Sequence[tuple[Plugin, int]]] | None = None,
        confirm_seconds: float = 30.0,
        limits: CallLimits = CallLimits(),  # noqa: B008 - it cannot be changed
        rules: Rules = DEFAULT_RULES,
    ) -> None:
        self.clock = Clock()
        self.cluster = Cluster(rules)
        self.pods = Pods()
        self.handle = Handle(self.cluster, self.pods, clock=self.clock)
        profiles = (
            Registry(IN_TREE, rules=rules).profiles(default_config(ARGS_TYPES, rules), self.handle)
            if plugins is None
            else {
                "default-scheduler": Profile(
                    "default-scheduler", {"bind": [(DefaultBinder(None, self.handle), 0)], **plugins}, clock=self.clock
                )
            }
        )
        self.events: list[Occurrence] = []
        self.engine = Engine(
            self.cluster,
            Profiles(profiles),
            self.pods,
            may_bind=lambda: self.trust.require_lead(),
            confirm_seconds=confirm_seconds,
        )
        self.trust = Trust()
        self.pods_version = ""
        self.extender = ExtenderService(
            self.engine,
            mode=mode,
            is_live=is_live,
            trust=self.trust,
            record=self.events.append,
            pods_version=lambda: self.pods_version,
            clock=self.clock,
        )
        self.observations: list[Observation] = []
        self.load = Load(limits)
        self.app = create_app(self.extender, self.observations.append, self.load)
        for node in nodes:
            self.cluster.apply_node(node)

    @property
    def profile(self) -> Profile:
        """The only profile."""
        [profile] = self.engine.profiles
        return profile

    async def post(self, verb: str, body: bytes | Mapping[str, object]) -> httpx.Response:
        """Call a verb as kube-scheduler does."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post(f"/{verb}", content=content)

    async def call(self, verb: str, body: Mapping[str, object]) -> Any:
        answer = await self.post(verb, body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def filter(self, pod: Pod, names: Sequence[str]) -> Any:
        return await self.call("filter", {"Pod": pod, "NodeNames": names})

    async def bind(self, pod: Pod, node_name: str, uid: str | None = None) -> str:
        """Bind a pod; returns the text of the error, empty if there is none."""
        body = {
            "PodName": pod.metadata.name,
            "PodNamespace": pod.metadata.namespace,
            "PodUID": pod.metadata.uid if uid is None else uid,
            "Node": node_name,
        }
        answer = await self.call("bind", body)
        assert set(answer) == {"Error"}
        return str(answer["Error"])

    def expected_on(self, pod: Pod) -> str | None:
        """The node on which the pod counts ahead of the watch, None if there is none."""
        placement = self.cluster.placements.get(pod_uid(pod))
        return None if placement is None else placement.node_name

    def cpu_milli(self, node_name: str) -> int:
        """What counts on a node."""
        return int(self.cluster.nodes.requested[CPU_MILLI, self.cluster.nodes.row_of[node_name]])

"""A whole scheduler with its cluster, its clock and the API server's part, for tests of the scheduler's modules."""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.cluster.sources.stores import NodeStore, PodStore
from extender_service.cluster.state.cluster import Cluster
from extender_service.config.loading import default_config
from extender_service.config.rules import DEFAULT_RULES, Rules, rules_of
from extender_service.framework.handle import Handle
from extender_service.framework.interface import Plugin
from extender_service.framework.profile import Profile
from extender_service.framework.profiles import Profiles
from extender_service.framework.queueing_hints import queueing_hints
from extender_service.framework.registry.registry import Registry
from extender_service.kube.api_errors import ApiError, ApiStatus, KubeError
from extender_service.kube.resources.api_resources import NODES, WATCHED_PODS
from extender_service.kube.types.core import Node, Pod
from extender_service.kube.types.pending_pods import PendingPod
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.types.storage import PersistentVolume, PersistentVolumeClaim
from extender_service.kube.writing.event_recorder import Occurrence
from extender_service.plugins.default_binder import DefaultBinder
from extender_service.plugins.in_tree import ARGS_TYPES, IN_TREE
from extender_service.plugins.queue_sort import PrioritySort
from extender_service.queue.scheduling_queue import SchedulingQueue
from extender_service.scheduler.attempt import Attempts
from extender_service.scheduler.event_handlers import EventHandlers
from extender_service.scheduler.extenders.extender_client import PodJson
from extender_service.scheduler.extenders.extenders import NO_EXTENDERS, Extenders
from extender_service.scheduler.failure_reports import MOST_REPORTS_AT_ONCE
from extender_service.scheduler.metrics.attempts import UNCOUNTED, AttemptMetrics
from extender_service.scheduler.metrics.event_timing import EventTiming
from extender_service.scheduler.metrics.pod_resources import PodResourceMetrics
from extender_service.scheduler.node_order import NodeOrder
from extender_service.scheduler.node_sampling import NodeSampling
from extender_service.scheduler.nominated_pods import nominations
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduler.scheduler import Scheduler
from extender_service.scheduler.time_limit import TimeLimit
from extender_service.scheduling.engine import Engine
from tests.support.clock import Clock
from tests.support.objects import make_node, make_pod, watched

NAME = "default-scheduler"
WALL_SECONDS = 1_800_000_000.0  # 2027-01-15T08:00:00Z


class Api:
    """The API server's part: it keeps pods, and what was written in which order. Writes wait for `gate` while it is
    closed, and raise what `errors` has for them, by verb and name of the pod; or what the API server answers where no
    pod has the name and the UID. Of what is refused, nothing is kept."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}
        self.written: list[tuple[str, str, Any]] = []
        self.errors: dict[tuple[str, str], list[KubeError]] = {}
        self.gate = asyncio.Event()
        self.gate.set()
        self.slow: set[str] = set()

    async def get_pod(self, namespace: str, name: str) -> Pod | None:
        return self.pods.get((namespace, name))

    async def get_pod_json(self, namespace: str, name: str) -> bytes:
        return msgspec.json.encode(self._existing(namespace, name))

    async def bind_pod(self, namespace: str, name: str, uid: str, node_name: str) -> None:
        await self._pass("bind", name)
        pod = self._existing(namespace, name)
        _require_uid(pod, uid)
        if pod.spec.node_name:
            raise _conflict(f'pod {name} is already assigned to node "{pod.spec.node_name}"')
        self.pods[namespace, name] = on_node(pod, node_name)
        self.written.append(("bind", name, (uid, node_name)))

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> str:
        await self._pass("patch", name)
        pod = self._existing(namespace, name)
        if patch["metadata"]["uid"] != pod.metadata.uid:
            raise ApiError(ApiStatus(422, "Invalid", "metadata.uid: Invalid value: field is immutable"))
        self.written.append(("patch", name, patch))
        return ""

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        await self._pass("delete", name)
        _require_uid(self._existing(namespace, name), uid)
        del self.pods[namespace, name]
        self.written.append(("delete", name, uid))

    async def write_volume(self, volume: PersistentVolume) -> PersistentVolume:
        raise AssertionError("no pod of these tests has a volume")

    async def write_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        raise AssertionError("no pod of these tests has a volume")

    def named(self, verb: str) -> list[str]:
        """The pods that were written by a verb, in this order."""
        return [name for written, name, _ in self.written if written == verb]

    async def _pass(self, verb: str, name: str) -> None:
        if name in self.slow:
            await self.gate.wait()
        errors = self.errors.get((verb, name))
        if errors:
            raise errors.pop(0)

    def _existing(self, namespace: str, name: str) -> Pod:
        pod = self.pods.get((namespace, name))
        if pod is None:
            raise ApiError(ApiStatus(404, "NotFound", f'pods "{name}" not found'))
        return pod


def _require_uid(pod: Pod, uid: str) -> None:
    if pod_uid(pod) != uid:
        raise _conflict(f"Precondition failed: UID in precondition: {uid}, UID in object meta: {pod_uid(pod)}")


def _conflict(why: str) -> ApiError:
    return ApiError(ApiStatus(409, "Conflict", why))


class SchedulerWorld:
    """A scheduler with the default plugins, or with `plugins` besides DefaultBinder, whose watch a test drives.

    `percentage` is of the nodes that are to be found feasible; all without it. `extenders` makes those that are asked.
    `rules` are those of a release; `uses_hints` turns hints on in v1.31.1. Plugins may take `decision_seconds` in an
    attempt.
    """

    def __init__(
        self,
        *nodes: Node,
        plugins: Mapping[str, Sequence[tuple[Plugin, int]]] | None = None,
        uses_hints: bool = False,
        percentage: int | None = None,
        extenders: Callable[[NodeTable, PodJson], Extenders] = lambda table, pod_json: NO_EXTENDERS,
        metrics: AttemptMetrics = UNCOUNTED,
        rules: Rules = DEFAULT_RULES,
        decision_seconds: float = math.inf,
    ) -> None:
        if uses_hints:
            rules = rules_of(31, {"SchedulerQueueingHints": True})
        self.clock = Clock()
        self.cluster = Cluster(rules)
        self.api = Api()
        self.handle = Handle(self.cluster, self.api, clock=self.clock)
        by_name = (
            Registry(IN_TREE, rules=rules).profiles(default_config(ARGS_TYPES, rules), self.handle)
            if plugins is None
            else {NAME: self._profile(plugins)}
        )
        profiles = Profiles(by_name)
        made = extenders(self.cluster.nodes, self.api.get_pod_json)
        self.pending = PodLister()
        self.queue = SchedulingQueue(
            by_name,
            {
                name: queueing_hints(profile.rejecting, rules, with_extenders=bool(made))
                for name, profile in by_name.items()
            },
            rules,
            clock=self.clock,
            metrics=UNCOUNTED_QUEUE,
            is_pending=self.pending.__contains__,
            namespace_labels=self.cluster.workloads.namespace_labels,
        )
        self.engine = Engine(
            self.cluster,
            profiles,
            self.api,
            nominated_for=nominations(self.cluster, self.queue),
            bind_elsewhere=made.bind if made else None,
        )
        self.events: list[Occurrence] = []
        order = NodeOrder(self.cluster.nodes)
        self.sampling = None if percentage is None else NodeSampling(order, {NAME: percentage})
        limit = TimeLimit(self.clock, decision_seconds)
        self.attempts = Attempts(self.engine, limit, self.sampling, made, metrics)
        self.scheduler = Scheduler(
            self.attempts,
            self.engine,
            self.queue,
            self.pending,
            self.api,
            self.events.append,
            self.handle.preemptions,
            sleep=asyncio.sleep,
            wall_clock=lambda: WALL_SECONDS,
            metrics=metrics,
        )
        self.resources = PodResourceMetrics(self.cluster, self.pending.__contains__)
        self.handled: list[tuple[str, float]] = []
        self.handlers = EventHandlers(
            self.cluster,
            self.queue,
            profiles,
            self.pending,
            order=order,
            resources=self.resources,
            timing=EventTiming(self.clock, lambda label, seconds: self.handled.append((label, seconds))),
        )
        self.pod_watch = self.handlers.handler(WATCHED_PODS, PodStore(self.cluster))
        self.node_watch = self.handlers.handler(NODES, NodeStore(self.cluster))
        for node in nodes:
            self.node_watch.apply(node)

    def create(self, *pods: Pod) -> None:
        """Let the watch show pods: whole if they are pending, small if they are on a node."""
        for pod in pods:
            self.api.pods[pod.metadata.namespace, pod.metadata.name] = pod
            self.pod_watch.apply(watched(pod) if pod.spec.node_name else whole(pod))

    def delete(self, pod: Pod) -> None:
        """Let the watch show that a pod is gone."""
        self.api.pods.pop((pod.metadata.namespace, pod.metadata.name), None)
        self.pod_watch.remove((pod.metadata.namespace, pod.metadata.name))

    def show_bound(self) -> None:
        """Let the watch show the bindings."""
        for key, pod in list(self.api.pods.items()):
            if pod.spec.node_name and self.pending.get("/".join(key)) is not None:
                self.pod_watch.apply(watched(pod))

    def attempt(self) -> str:
        """Attempt the next pod, and return its name; empty if none is active."""
        info = self.queue.pop()
        if info is None:
            return ""
        with suppress(StopIteration):  # without extenders, it awaits nothing
            self.scheduler.schedule_one(info).send(None)
            raise AssertionError("the attempt awaits something")
        return info.pod.metadata.name

    async def attempt_with_extenders(self) -> None:
        """Attempt the next pod, which extenders may delay."""
        info = self.queue.pop()
        assert info is not None, "no pod is active"
        await self.scheduler.schedule_one(info)

    def attempt_all(self) -> list[str]:
        """Attempt all active pods."""
        names = []
        while name := self.attempt():
            names.append(name)
        return names

    def place_of(self, pod: Pod) -> str:
        """The node on which a pod counts; empty if on none."""
        placement = self.cluster.placements.get(pod_uid(pod))
        if placement is not None:
            return placement.node_name
        return self.engine.binder.confirmations.shown_on(pod_uid(pod)) or ""

    def where(self) -> dict[str, int]:
        """How many pods wait where."""
        return {name: count for name, count in self.queue.pending_counts().items() if count}

    def notes(self, pod: Pod) -> list[str]:
        """The reasons of the events about a pod."""
        return [event.reason for event in self.events if event.regarding.name == pod.metadata.name]

    def _profile(self, plugins: Mapping[str, Sequence[tuple[Plugin, int]]]) -> Profile:
        points: dict[str, Sequence[tuple[Plugin, int]]] = {
            "queueSort": [(PrioritySort(None, self.handle), 0)],
            "bind": [(DefaultBinder(None, self.handle), 0)],
            **plugins,
        }
        return Profile(NAME, points, self.handle.waiting_pods, clock=self.clock)


class _Metrics:
    def incoming(self, queue: str, event: str) -> None:
        pass

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        pass


UNCOUNTED_QUEUE = _Metrics()


def full_of_reports(minor: int) -> SchedulerWorld:
    """A world in which so many failures are being written that no other is, until the gate opens.

    The node a has room for an important pod once the pod low-a is gone.
    """
    world = SchedulerWorld(make_node("a", {"cpu": "5", "pods": "200"}), rules=rules_of(minor))
    others = [make_pod(f"other{number}", requests={"cpu": "100"}) for number in range(MOST_REPORTS_AT_ONCE)]
    world.api.slow, world.api.gate = {pod.metadata.name for pod in others}, asyncio.Event()
    low, bystander = (make_pod(name, "a", requests={"cpu": cpu}) for name, cpu in (("low-a", "4"), ("bystander", "1")))
    world.create(low, bystander, *others)
    world.attempt_all()
    return world


def important(name: str) -> Pod:
    """A pod of a high priority, which asks for all CPUs of a node."""
    pod = make_pod(name, requests={"cpu": "4"})
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=100))


def whole(pod: Pod) -> Pod:
    """What the scheduler's watch shows of a pending pod."""
    found = msgspec.json.decode(msgspec.json.encode(pod), type=PendingPod)
    spec = msgspec.structs.replace(found.spec, scheduler_name=found.spec.scheduler_name or NAME)
    return msgspec.structs.replace(found, spec=spec, whole_json=msgspec.json.encode(pod))


def on_node(pod: Pod, node_name: str) -> Pod:
    """The pod, bound."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))


async def turns(count: int = 20) -> None:
    """Let other tasks run."""
    for _ in range(count):
        await asyncio.sleep(0)

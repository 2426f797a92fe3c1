"""A scheduling queue to test, with time, plugins and a watch that a test controls."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from extender_service.cluster.state.cluster import Cluster
from extender_service.config.rules import Rules, rules_of
from extender_service.framework.cluster_event import NODE, ActionType, ClusterEvent, QueueingHint
from extender_service.framework.interface import PreEnqueue
from extender_service.framework.profile import Profile
from extender_service.framework.queueing_hints import HintFunction, QueueingHints, RegisteredHint
from extender_service.framework.status import Status, unresolvable
from extender_service.kube.types.core import Pod, PodSchedulingGate
from extender_service.plugins.queue_sort import PrioritySort
from extender_service.plugins.scheduling_gates import SchedulingGates
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.scheduling_queue import SchedulingQueue
from tests.support.clock import Clock
from tests.support.objects import make_pod
from tests.support.stub_plugins import make_handle

SCHEDULER = "default-scheduler"
NODE_ADD = ClusterEvent(NODE, ActionType.ADD, "NodeAdd")
GATE = (PodSchedulingGate("wait"),)


def queues(event: object, pod: object, old: object, new: object) -> QueueingHint:
    return QueueingHint.QUEUE


NODE_HELPS_FIT = (NODE_ADD, "Fit", queues)


class Holding(PreEnqueue):
    """Keeps pods out as a test says."""

    name = "Holding"

    def __init__(self, hold: Callable[[Pod], Status | None]) -> None:
        super().__init__(None, make_handle(Cluster()))
        self.hold = hold

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return self.hold(pod)


class QueueWorld:
    """A queue, and what a scheduler would tell it. `hints` are (event, plugin, function).

    The queue is v1.31.1's, with `uses_hints` or not, unless `rules` are given.
    """

    def __init__(
        self,
        *hints: tuple[ClusterEvent, str, HintFunction],
        uses_hints: bool = False,
        rules: Rules | None = None,
        hold: Callable[[Pod], Status | None] = lambda _: None,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.clock = Clock()
        self.watched: set[str] = set()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.rejections: Counter[str] = Counter()
        handle = make_handle(Cluster())
        gates = [(SchedulingGates(None, handle), 0), (Holding(hold), 0)]
        profile = Profile(SCHEDULER, {"preEnqueue": gates, "queueSort": [(PrioritySort(None, handle), 0)]})
        registered: dict[ClusterEvent, list[RegisteredHint]] = {}
        for event, plugin, ask in hints:
            registered.setdefault(event, []).append(RegisteredHint(plugin, ask))
        by_profile: dict[str, QueueingHints] = {SCHEDULER: registered}
        self.queue = SchedulingQueue(
            {SCHEDULER: profile},
            by_profile,
            rules_of(31, {"SchedulerQueueingHints": uses_hints}) if rules is None else rules,
            clock=self.clock,
            metrics=self,
            is_pending=lambda key: key in self.watched,
            namespace_labels=lambda name: (namespaces or {}).get(name, {}),
        )

    def incoming(self, queue: str, event: str) -> None:
        self.counts[queue, event] += 1

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        self.rejections[plugin] += change

    def popped(self) -> list[str]:
        """The names of the pods that the queue gives now, all of them in order."""
        names = []
        while (info := self.queue.pop()) is not None:
            names.append(info.pod.metadata.name)
        return names

    def pop(self) -> QueuedPodInfo:
        info = self.queue.pop()
        assert info is not None
        return info

    def fail(self, info: QueuedPodInfo, *plugins: str, pending: Sequence[str] = ()) -> bool:
        """The scheduler gives a pod back that these plugins rejected."""
        info.unschedulable_plugins = frozenset(plugins)
        info.pending_plugins = frozenset(pending)
        return self.queue.add_unschedulable_if_not_present(info, self.queue.scheduling_cycle)

    def reject(self, name: str, *plugins: str, pending: Sequence[str] = (), **spec: Any) -> Pod:
        """A pod of this name comes, and its first attempt fails. Nothing else may be active."""
        pod = queue_pod(name, **spec)
        self.queue.add(pod)
        info = self.pop()
        assert info.pod is pod
        self.fail(info, *plugins, pending=pending)
        return pod

    @property
    def summary(self) -> tuple[int, int, int]:
        """How many pods are active, back off, and are unschedulable."""
        active, backoff, unschedulable = (
            int(part.partition(":")[2]) for part in self.queue.pending_pods()[1].split(";")
        )
        return active, backoff, unschedulable


def queue_pod(name: str, *, labels: Mapping[str, str] | None = None, version: str = "1", **spec: Any) -> Pod:
    """A pod for a queue, with fields of its spec."""
    pod = make_pod(name)
    return Pod(
        msgspec.structs.replace(pod.metadata, labels=dict(labels or {}), resource_version=version),
        msgspec.structs.replace(pod.spec, scheduler_name=SCHEDULER, **spec),
    )


def changed(pod: Pod, *, labels: dict[str, str] | None = None, **spec: object) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, resource_version=pod.metadata.resource_version + "1")
    if labels is not None:
        metadata = msgspec.structs.replace(metadata, labels=labels)
    return msgspec.structs.replace(pod, metadata=metadata, spec=msgspec.structs.replace(pod.spec, **spec))


def release(minor: int, *hints: tuple[ClusterEvent, str, HintFunction]) -> QueueWorld:
    def holds(pod: Pod) -> Status | None:
        return unresolvable("held") if pod.metadata.labels.get("hold") == "yes" else None

    return QueueWorld(*hints, rules=rules_of(minor), hold=holds)

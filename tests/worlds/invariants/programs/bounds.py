"""What holds of the sizes of things: a program may have much to do, but keeps no more than that takes."""

import math
from collections.abc import Iterator
from typing import NamedTuple

from extender_service.caches import caches
from extender_service.cluster.debugging.table_sizes import table_sizes
from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.state.cluster import Cluster
from extender_service.cluster.state.placements import Placement
from extender_service.extender.expectations import UNKNOWN_SECONDS
from extender_service.queue.in_flight_events import POD_POPPED
from extender_service.queue.waiting_queues import ACTIVE
from tests.worlds.api_server.etcd import Change
from tests.worlds.api_server.kinds import NODES, PODS, Kind
from tests.worlds.invariants.insides import SchedulerInsides, ServiceInsides, scheduler_insides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.process import Process
from tests.worlds.waits.parties import is_held_up
from tests.worlds.waits.versions import known_versions

_SECONDS_BETWEEN_LOOKS = 10.0
# A program has some 45 tasks and 20 connections at rest. Each pod adds a few while it is bound, or its events written.
_TASKS = 100
_TASKS_A_POD = 4
_CONNECTIONS = 80
_CONNECTIONS_A_POD = 2
# Kept for pods in flight: at most some changes of each pod and node; a few nodes change more often.
_EVENTS_AN_OBJECT = 40
_FEW_NODES = 50
_COUNTED = (PODS, NODES)
# A table keeps at most so much of each object that is stored, and so much besides.
_ENTRIES_AN_OBJECT = 2
_ENTRIES = 50
# `serve` may be held up between two looks and a third one, and then ends what it expects within a second.
_OVERDUE_SECONDS = 2 * _SECONDS_BETWEEN_LOOKS + 2.0


class WithinBounds:
    """Every ten seconds, of each program: tasks and connections are at most 100 and 80, and 4 and 2 for each pod that
    there ever was at a time; so many pods at most are queued, in flight and placed, and those beside them that have
    gone while the program's watch has not shown that yet, under whose names others may be by now, or in flight while
    their bindings or writes about them wait; and each cache is within its bound in bytes.

    `serve` reserves a node for a pod for ten minutes at most unless its binding begins, and for five seconds if its
    watch does not show the pod, by the clock of its machine. Looks leave 22 s beyond that, and begin again where it was
    held up.
    """

    name = "within bounds"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._there = dict.fromkeys(_COUNTED, 0)
        # One that has gone may be known for a while, so the most that there were is what counts.
        self._most = dict.fromkeys(_COUNTED, 0)
        self._gone_at: list[int] = []  # revisions
        self._expected = ExpectedPods()
        observed.model.etcd.listeners.append(self._count)
        observed.model.etcd.on_restore.append(self._count_again)
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def _count(self, kind: Kind, change: Change) -> None:
        if kind in _COUNTED:
            self._there[kind] += (change.before is None) - (change.after is None)
            self._most[kind] = max(self._most[kind], self._there[kind])
        if kind is PODS and change.after is None:
            self._gone_at.append(change.revision)

    def _count_again(self) -> None:
        for kind in _COUNTED:
            self._there[kind] = sum(1 for _ in self._observed.model.etcd.all(kind))

    def _look(self) -> None:
        self._observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)
        for process in self._observed.programs:
            if process.outcome is None:
                for what, size, most in self._sizes(process):
                    if size > most:
                        self._observed.violated(self, f"{process.name} has {size} {what}, more than {most}")
            if (service := service_insides(process)) is not None:
                for text in self._expected.overdue(process, service, self._observed.now):
                    self._observed.violated(self, f"{process.name} {text}")

    def _sizes(self, process: Process) -> Iterator[tuple[str, int, int]]:
        """Yield what a program has: a name, how many, and how many it may have."""
        pods, nodes = self._most[PODS], self._most[NODES]
        yield from _of_loop(self._observed, process, pods)
        scheduler = scheduler_insides(process)
        if scheduler is not None:
            yield from _of_scheduler(scheduler, pods + self._gone_unseen(scheduler.api_server), nodes)
        if (service := service_insides(process)) is not None:
            known_pods = pods + self._gone_unseen(service.api_server)
            yield from _of_cluster(service.cluster, known_pods)
            for table in service.extender.expectations.table_sizes():
                if table.limit is not None:
                    # The limit follows the placements, and `serve` keeps to it every second.
                    yield table.name, table.entries, table.limit + _ENTRIES_AN_OBJECT * known_pods

    def _gone_unseen(self, api_server: ApiServer) -> int:
        """Return how many pods have gone of which a program's watch has not shown the end."""
        known = int(api_server.states[PODS.plural].last_resource_version or 0)
        return sum(revision > known for revision in self._gone_at)

    def at_end(self) -> None:
        """Look at the caches, which all programs of the world share."""
        for cache in caches():
            if cache.size_bytes > cache.most_bytes:
                self._observed.violated(self, f"the cache of {cache.name} has {cache.size_bytes} bytes")


class AtRest:
    """Each program has 100 tasks and 80 connections at most, and 4 and 2 for each pod that is active or in flight now,
    however many there were. Each table of its cluster is within its limit; one without keeps two entries at most for
    each object that is stored of what the program reads, and 50 more.
    """

    name = "at rest"

    def problems(self, observed: Observed) -> Iterator[str]:
        """Name what is larger."""
        insides = [scheduler_insides(replica) for replica in observed.replicas]
        busy_pods = sum(_busy_pods(each) for each in insides if each is not None)
        for process in observed.programs:
            if process.outcome is None:
                sizes = [*_of_loop(observed, process, busy_pods), *_tables(observed, process)]
                for what, size, most in sizes:
                    if size > most:
                        yield f"{process.name} has {size} {what}, more than {most}"


class _Expected(NamedTuple):
    """Since when a placement has been seen, by the machine's clock that never goes back, and whether no look has found
    its pod known so far."""

    since: float
    is_unknown: bool


class ExpectedPods:
    """The pods that `serve` expects on a node, look by look."""

    def __init__(self) -> None:
        self._seen: dict[Placement, _Expected] = {}

    def overdue(self, process: Process, service: ServiceInsides, now: float) -> Iterator[str]:
        """Take a look, and yield, once each, what `serve` still expects though its time is over."""
        before, self._seen = self._seen, {}
        if is_held_up(process, now):
            return
        cluster, clock = service.cluster, process.clocks.monotonic()
        for placement in cluster.placements:
            if placement.assumed:
                continue
            is_unknown = cluster.pod(placement.uid) is None
            seen = before.get(placement, _Expected(clock, is_unknown))
            is_unknown &= seen.is_unknown
            most = UNKNOWN_SECONDS if is_unknown else service.extender.expectations._expected_seconds
            is_overdue = clock - seen.since > most + _OVERDUE_SECONDS
            self._seen[placement] = _Expected(math.inf if is_overdue else seen.since, is_unknown)
            if is_overdue:
                text = f"expects pod {placement.uid} on {placement.node_name} for {clock - seen.since:.0f} s"
                yield f"{text}, which its watch does not show" if is_unknown else text


def _of_loop(observed: Observed, process: Process, pods: int) -> Iterator[tuple[str, int, int]]:
    """Yield the tasks and connections of a program, and how many it may have that has to do with so many pods."""
    yield "tasks", len(process.loop.tasks()), _TASKS + _TASKS_A_POD * pods
    ends = observed.world.network._transports
    connections = sum(end.loop is process.loop and not end.is_gone for end in ends)
    yield "connections", connections, _CONNECTIONS + _CONNECTIONS_A_POD * pods


def _busy_pods(insides: SchedulerInsides) -> int:
    """Return how many pods are active or in flight."""
    return insides.queue.pending_counts()[ACTIVE] + insides.queue.in_flight_counts().get(POD_POPPED, 0)


def _tables(observed: Observed, process: Process) -> Iterator[tuple[str, int, int]]:
    """Yield the tables of a program's cluster."""
    insides = scheduler_insides(process) or service_insides(process)
    if insides is not None and insides.has_cache:
        objects = sum(1 for kind, _ in known_versions(insides) for _ in observed.model.etcd.all(kind))
        for name, entries, limit in table_sizes(insides.cluster):
            yield f"entries in {name}", entries, _ENTRIES + _ENTRIES_AN_OBJECT * objects if limit is None else limit


def _of_scheduler(insides: SchedulerInsides, pods: int, nodes: int) -> Iterator[tuple[str, int, int]]:
    yield from _of_cluster(insides.cluster, pods)
    yield "pods queued", sum(insides.queue.pending_counts().values()), pods
    counts = insides.queue.in_flight_counts()
    in_flight = counts.get(POD_POPPED, 0)
    yield "pods in flight", in_flight, pods + _bindings_of_gone(insides)
    events = sum(counts.values()) - in_flight
    yield "events kept for them", events, _EVENTS_AN_OBJECT * (pods + max(nodes, _FEW_NODES))
    yield "writes under way", insides.scheduler.unfinished_count, _TASKS + _TASKS_A_POD * pods
    yield "nominations", len(insides.queue.nominator.node_of), pods


def _bindings_of_gone(insides: SchedulerInsides) -> int:
    """Return how many pods have gone whose bindings wait yet, for volumes or an answer, or for a write about the pod,
    such as its nomination, which comes first: they are in flight until then, as in kube-scheduler."""
    uids = insides.engine.binder._under_way.keys() | insides.scheduler._writes._last.keys()
    return sum(insides.cluster.pod(uid) is None for uid in uids)


def _of_cluster(cluster: Cluster, pods: int) -> Iterator[tuple[str, int, int]]:
    yield "placements", len(cluster.placements), pods
    yield "pods known", cluster.pod_count, pods

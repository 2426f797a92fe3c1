"""What holds of the sizes of things: a program may have much to do, but keeps no more than that takes."""

from collections.abc import Iterator

from extender_service.caches import caches
from extender_service.cluster.sources.api_server import ApiServer
from extender_service.cluster.state.cluster import Cluster
from extender_service.queue.in_flight_events import POD_POPPED
from tests.worlds.api_server.etcd import Change
from tests.worlds.api_server.kinds import PODS, Kind
from tests.worlds.invariants.insides import SchedulerInsides, scheduler_insides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.process import Process

_SECONDS_BETWEEN_LOOKS = 10.0
# A program has some 45 tasks and 20 connections at rest. Each pod adds a few while it is bound, or its events written.
_TASKS = 100
_TASKS_A_POD = 4
_CONNECTIONS = 80
_CONNECTIONS_A_POD = 2
# Kept for pods in flight: at most some changes of each pod, and of the nodes.
_EVENTS_A_POD = 40
_EVENTS = 2000


class WithinBounds:
    """Every ten seconds, of each program: tasks and connections are at most 100 and 80, and 4 and 2 for each pod that
    there ever was at a time; so many pods at most are queued, in flight and placed, and those beside them that have
    gone while the program's watch has not shown that yet, under whose names others may be by now; and each cache is
    within its bound in bytes.
    """

    name = "within bounds"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._pods = self._most_pods = 0
        self._gone_at: list[int] = []  # revisions
        observed.model.etcd.listeners.append(self._count)
        observed.model.etcd.on_restore.append(self._count_again)
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def _count(self, kind: Kind, change: Change) -> None:
        """Count the pods. One that has gone may be known for a while, so the most that there were is what counts."""
        if kind is PODS:
            self._pods += (change.before is None) - (change.after is None)
            self._most_pods = max(self._most_pods, self._pods)
            if change.after is None:
                self._gone_at.append(change.revision)

    def _count_again(self) -> None:
        self._pods = sum(1 for _ in self._observed.model.etcd.all(PODS))

    def _look(self) -> None:
        self._observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)
        for process in self._observed.programs:
            if process.outcome is None:
                for what, size, most in self._sizes(process):
                    if size > most:
                        self._observed.violated(self, f"{process.name} has {size} {what}, more than {most}")

    def _sizes(self, process: Process) -> Iterator[tuple[str, int, int]]:
        """Yield what a program has: a name, how many, and how many it may have."""
        pods = self._most_pods
        yield "tasks", len(process.loop.tasks()), _TASKS + _TASKS_A_POD * pods
        ends = self._observed.world.network._transports
        connections = sum(end.loop is process.loop and not end.is_gone for end in ends)
        yield "connections", connections, _CONNECTIONS + _CONNECTIONS_A_POD * pods
        scheduler = scheduler_insides(process)
        if scheduler is not None:
            yield from _of_scheduler(scheduler, pods + self._gone_unseen(scheduler.api_server))
        if (service := service_insides(process)) is not None:
            yield from _of_cluster(service.cluster, pods + self._gone_unseen(service.api_server))
            for table in service.extender.expectations.table_sizes():
                if table.limit is not None:
                    yield table.name, table.entries, table.limit

    def _gone_unseen(self, api_server: ApiServer) -> int:
        """Return how many pods have gone of which a program's watch has not shown the end."""
        known = int(api_server.states[PODS.plural].last_resource_version or 0)
        return sum(revision > known for revision in self._gone_at)

    def at_end(self) -> None:
        """Look at the caches, which all programs of the world share."""
        for cache in caches():
            if cache.size_bytes > cache.most_bytes:
                self._observed.violated(self, f"the cache of {cache.name} has {cache.size_bytes} bytes")


def _of_scheduler(insides: SchedulerInsides, pods: int) -> Iterator[tuple[str, int, int]]:
    yield from _of_cluster(insides.cluster, pods)
    yield "pods queued", sum(insides.queue.pending_counts().values()), pods
    counts = insides.queue.in_flight_counts()
    in_flight = counts.get(POD_POPPED, 0)
    yield "pods in flight", in_flight, pods
    yield "events kept for them", sum(counts.values()) - in_flight, _EVENTS + _EVENTS_A_POD * pods
    yield "writes under way", insides.scheduler.unfinished_count, _TASKS + _TASKS_A_POD * pods
    yield "nominations", len(insides.queue.nominator.node_of), pods


def _of_cluster(cluster: Cluster, pods: int) -> Iterator[tuple[str, int, int]]:
    yield "placements", len(cluster.placements), pods
    yield "pods known", cluster.pod_count, pods

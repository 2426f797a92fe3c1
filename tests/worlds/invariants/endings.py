"""What holds in the end, once faults are over and all had time to settle."""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

from extender_service.cluster.debugging.comparison import compare
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.types.keys import Key
from extender_service.kube.types.pods import pod_uid
from extender_service.observability.health import run_checks
from extender_service.queue.waiting_queues import GATED, UNSCHEDULABLE
from extender_service.scheduler.leader_election import LeaderElector
from extender_service.scheduling.engine import Engine
from tests.worlds.api_server.kinds import LEASES, PODS
from tests.worlds.invariants.insides import (
    SchedulerInsides,
    ServiceInsides,
    scheduler_insides,
    service_insides,
)
from tests.worlds.invariants.lost_writes import assumed_for_lost_writes, wait_for_lost_writes
from tests.worlds.invariants.observed import Lasting, Observed
from tests.worlds.invariants.programs.leaders import LEASE
from tests.worlds.invariants.truth import Judge, cluster_of, pending_pods
from tests.worlds.settings.program_settings import BATCH_SCHEDULER
from tests.worlds.simulation.process import Process

_SCHEDULERS = ("default-scheduler", BATCH_SCHEDULER)
# A thing that a program keeps, and what to call it.
_Left = tuple[Hashable, str]


class AllRun:
    """Every program that was ever started runs, and has come as far as to schedule, to stand by, or to answer."""

    name = "all run"

    def problems(self, observed: Observed) -> Iterator[str]:
        """Name the programs that do not."""
        for process in observed.programs:
            if process.starts and process.outcome is not None:
                yield f"{process.name} does not run: it {process.outcome}"
            elif process.starts and scheduler_insides(process) is None and service_insides(process) is None:
                yield f"{process.name} is still starting"


class FittingPodsBound:
    """Every pod that fits on some node is bound; the product's engine judges that, on the API server's state.

    Pods go on to come and to end. So what counts is a pod that fits at each look, from the first on, for longer than a
    pod backs off: 10 s, and a second until the queue looks.

    Excused is what FittingPodsTried excuses, as kube-scheduler leaves it waiting, too: for five minutes, and for 30 s
    until the queue looks. So is a pod whose binding waits for a write that etcd has lost (`wait_for_lost_writes`), and
    one that fits only on nodes on which `serve` expects another pod that waits (NothingLeftOver): that has its room.
    """

    name = "fitting pods bound"

    def __init__(self, excuses: Callable[[str, Sequence[str]], bool] = lambda uid, node_names: False) -> None:
        """`excuses` tells that of a pod, by UID, and of the nodes on which it fits."""
        self._excuses = excuses
        self._fitting: set[str] | None = None

    def problems(self, observed: Observed) -> Iterator[str]:
        """Name the pods that are not, and a node for each."""
        pending = [*pending_pods(observed.model.etcd, _SCHEDULERS)] if observed.replicas else []
        judge = Judge(observed.model.etcd, observed.rules) if pending else None
        fits_on: dict[str, tuple[str, Sequence[str]]] = {}
        for item in pending:
            if judge is not None and (nodes := judge.feasible(item)):
                fits_on[item.value["metadata"]["uid"]] = (item.key, nodes)
        self._fitting = set(fits_on) if self._fitting is None else self._fitting & fits_on.keys()
        being_bound = {uid for process in observed.programs for uid in wait_for_lost_writes(observed, process)}
        taken = _expected_on(observed)
        for uid, (key, node_names) in fits_on.items():
            left = [name for name in node_names if not taken.get(name, frozenset()) - {uid}]
            if uid in self._fitting - being_bound and left and not self._excuses(uid, node_names):
                yield f"pod {key} waits, though it fits on {left[0]}"


class CachesEqual:
    """The cache of every program equals the API server: nodes, pods and all other kinds that it reads, with all sums.

    By the product's own comparison, which SIGUSR2 asks for. A standby with delayCacheUntilActive reads nothing.
    """

    name = "caches equal"

    def problems(self, observed: Observed) -> Iterator[str]:
        """Name what differs."""
        for process, insides in _with_cache(observed):
            listed = cluster_of(observed.model.etcd, insides.api_server._reads, insides.cluster.rules)
            for line in compare(insides.cluster, listed).lines():
                yield f"the cache of {process.name} differs: {line}"


class NothingLeftOver:
    """No program keeps something for a pod that is bound, gone or at rest: no placement, reservation, assumed volume,
    binding, pod in flight or held, running preemption, wait in Permit, or write under way. A nomination is that of a
    pod that waits, as the API server has it, also where it is for no node; and a standby with a cache, which decides
    nothing by itself, has all that are for a node.

    Excused is a pod that waits, and that `serve` expects on a node: a replica asked about it, and did not go on to bind
    it. That ends after ten minutes. So is the binding of a pod that waits for a write that etcd has lost
    (`wait_for_lost_writes`), with its placement, volumes and claims, and as a pod in flight. And so is what is left at
    one look, and has ended by a later one.
    """

    name = "nothing left over"

    def __init__(self) -> None:
        self._lasting = Lasting()

    def problems(self, observed: Observed) -> Iterator[str]:
        """Name what is left."""
        yield from self._lasting.of(self._left(observed))

    def _left(self, observed: Observed) -> Iterator[_Left]:
        waiting = {item.value["metadata"]["uid"] for item in pending_pods(observed.model.etcd, _SCHEDULERS)}
        for process, insides in _all_insides(observed):
            expected = waiting if isinstance(insides, ServiceInsides) else frozenset[str]()
            excused = wait_for_lost_writes(observed, process)
            left = chain(
                _left_in_cluster(insides.cluster, expected, excused),
                _assumed_storage(insides.cluster, assumed_for_lost_writes(observed, process)),
                _left_in_engine(insides.engine, excused),
            )
            if isinstance(insides, SchedulerInsides):
                left = chain(left, _left_in_scheduler(insides, observed, excused))
            for thing, what in left:
                yield (process.name, process.starts, thing), f"{process.name} still has {what}"


class QueuesComplete:
    """Each pod that waits is in the queue of each scheduler, once; and no other. It counts them rightly.

    A pod is not in the queue of a scheduler whose binding of it waits for a write that etcd has lost
    (`wait_for_lost_writes`). The queue of a standby with delayCacheUntilActive is empty.

    Before v1.36, a pod that becomes gated while it waits, or the reverse, is counted where it was, as in
    kube-scheduler: then only the sum of both counts is right.
    """

    name = "queues complete"

    def problems(self, observed: Observed) -> Iterator[str]:
        """Name the pods that are missed, and those that are there without reason."""
        wanted = {item.value["metadata"]["uid"]: item.key for item in pending_pods(observed.model.etcd, _SCHEDULERS)}
        for replica in observed.replicas:
            insides = scheduler_insides(replica)
            if insides is None:
                continue
            entries = [*insides.queue.entries()]
            queued = {pod_uid(entry.info.pod): entry.info.key for entry in entries}
            if len(entries) != len(queued):
                yield f"the queue of {replica.name} has a pod twice: {sorted(entry.info.key for entry in entries)}"
            counts, shown = Counter(entry.queue for entry in entries), {**insides.queue.pending_counts()}
            if not insides.cluster.rules.gates_counted_once:
                counts[UNSCHEDULABLE] += counts.pop(GATED, 0)
                shown[UNSCHEDULABLE] += shown.pop(GATED)
            for part, count in shown.items():
                if count != counts[part]:
                    yield f"the queue of {replica.name} has {counts[part]} pods in {part}, and counts {count}"
            missed = wanted.keys() - queued.keys() if insides.has_cache else set[str]()
            for uid in missed - wait_for_lost_writes(observed, replica):
                yield f"the queue of {replica.name} lacks pod {wanted[uid]}"
            ending = _being_deleted(observed)
            for uid in queued.keys() - wanted.keys() - ending:
                yield f"the queue of {replica.name} has pod {queued[uid]}, which does not wait"


class LeaderAgreed:
    """One replica leads: it holds the lease, has renewed it in the last seconds, and all others know that."""

    name = "leader agreed"

    def problems(self, observed: Observed) -> Iterator[str]:
        """Name the replicas that think otherwise."""
        electing = [
            (replica, insides, insides.elector)
            for replica in observed.replicas
            if (insides := scheduler_insides(replica)) is not None and insides.elector is not None
        ]
        if not electing:
            return
        lease = observed.model.etcd.get(LEASES, LEASE)
        holder = "" if lease is None else lease.value["spec"].get("holderIdentity", "")
        leading = [each.name for each, insides, elector in electing if insides.is_leading and elector.is_leader]
        if len(leading) != 1 or not holder.startswith(f"{leading[0]}_"):
            yield f"{holder or 'nothing'} holds the lease, and these lead: {', '.join(leading) or 'none'}"
        for replica, _, elector in electing:
            if elector.holder != holder:
                yield f"{holder} holds the lease, and {replica.name} thinks that {elector.holder or 'nothing'} does"
            if replica.name in leading and _renewed_seconds_ago(replica, elector) > elector._times.writing_seconds:
                yield f"{replica.name} leads, and has not renewed the lease for long"


class AllReady:
    """All checks of /readyz and /livez pass in every program. With delayCacheUntilActive, a standby is not ready."""

    name = "all ready"

    def problems(self, observed: Observed) -> Iterator[str]:
        """Name the checks that fail."""
        for process, insides in _all_insides(observed):
            excluded = () if insides.has_cache else ("sched-handler-sync",)
            report = run_checks("readyz", {**insides.health.readiness, **insides.health.health}, excluded)
            for line in report.text.splitlines():
                if line.startswith("[-]"):
                    yield f"{process.name} is not ready: {line[3:]}"


def _renewed_seconds_ago(replica: Process, elector: LeaderElector) -> float:
    return math.inf if elector._renewed_at is None else replica.clocks.boot() - elector._renewed_at


def _all_insides(observed: Observed) -> Iterator[tuple[Process, SchedulerInsides | ServiceInsides]]:
    for process in observed.programs:
        insides = scheduler_insides(process) or service_insides(process)
        if insides is not None:
            yield process, insides


def _with_cache(observed: Observed) -> Iterator[tuple[Process, SchedulerInsides | ServiceInsides]]:
    return ((process, insides) for process, insides in _all_insides(observed) if insides.has_cache)


def _left_in_cluster(cluster: Cluster, expected: AbstractSet[str], being_bound: AbstractSet[str]) -> Iterator[_Left]:
    """Yield what is left of placements, except of pods that may be expected on a node, or assumed there as they are
    being bound."""
    for placement in cluster.placements:
        word = "assumed" if placement.assumed else "reserved"
        if placement.uid not in (being_bound if placement.assumed else expected):
            yield placement, f"pod {placement.pod.metadata.name} {word} on {placement.node_name}"


def _assumed_storage(cluster: Cluster, excused: AbstractSet[tuple[type, Key]]) -> Iterator[_Left]:
    """Yield that volumes or claims are assumed, except those that a binding waits for."""
    assumed = {(kind, key) for kind, by_key in cluster.storage._assumed.items() for key in by_key}
    if left := assumed - excused:
        yield "assumed", f"{len(left)} volumes or claims assumed"


def _left_in_engine(engine: Engine, being_bound: AbstractSet[str]) -> Iterator[_Left]:
    for uid, under_way in engine.binder._under_way.items():
        if uid not in being_bound:
            yield under_way.task, f"the binding of {uid} to {under_way.node_name} under way"
    for placement, task in engine.binder.confirmations._reading.items():
        yield task, f"to find out about the binding of {placement.uid}"
    for profile in engine.profiles:
        for pod in profile.waiting_pods:
            yield pod, f"pod {pod.pod.metadata.name} that waits in Permit"


def _left_in_scheduler(insides: SchedulerInsides, observed: Observed, being_bound: AbstractSet[str]) -> Iterator[_Left]:
    queue, scheduler = insides.queue, insides.scheduler
    yield from _each((uid for uid in queue._in_flight._positions if uid not in being_bound), "in flight")
    if not queue._in_flight and (kinds := queue.in_flight_counts()):
        yield "events", f"events of {len(kinds)} kinds, for no pod in flight"
    yield from _each(sorted(queue._held), "held")
    yield from _each(scheduler._preempting._evictions._preemptions._by_uid, "that preempts others")
    for uid, write in scheduler._writes._last.items():
        yield write, f"pod {uid} being written"
    yield from _each(scheduler._reports._waiting, "whose failure is to be written")
    under_way = scheduler._bindings.under_way | scheduler._background | {*scheduler._reports._under_way.values()}
    bindings = {each.task for uid, each in insides.engine.binder._under_way.items() if uid in being_bound}
    for task in under_way - bindings:
        yield ("task", task), "work under way"
    stored = {
        item.value["metadata"]["uid"]: item.value["status"].get("nominatedNodeName", "")
        for item in pending_pods(observed.model.etcd, _SCHEDULERS)
    }
    for uid, node_name in queue.nominator.node_of.items():
        if stored.get(uid) != node_name:
            text = (
                f"the nomination of {uid} for {node_name!r}, which the API server has for {stored.get(uid, 'no pod')!r}"
            )
            yield ("nomination", uid, node_name), text
    for uid, node_name in stored.items() if insides.has_cache and not insides.is_leading else ():
        if node_name and uid not in queue.nominator.node_of:
            yield ("no nomination", uid), f"no nomination of {uid} for {node_name}, which the API server has"


def _each(uids: Iterable[str], what: str) -> Iterator[_Left]:
    for uid in uids:
        yield (what, uid), f"pod {uid} {what}"


def _expected_on(observed: Observed) -> dict[str, frozenset[str]]:
    """Return which pods `serve` expects, by UID, and on which node."""
    insides = None if observed.service is None else service_insides(observed.service)
    expected: dict[str, frozenset[str]] = {}
    for placement in () if insides is None else insides.cluster.placements:
        if not placement.assumed:
            expected[placement.node_name] = expected.get(placement.node_name, frozenset()) | {placement.uid}
    return expected


def _being_deleted(observed: Observed) -> set[str]:
    return {
        item.value["metadata"]["uid"]
        for item in observed.model.etcd.all(PODS)
        if "deletionTimestamp" in item.value["metadata"]
    }

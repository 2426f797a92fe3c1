"""What holds of the pods that preemption makes go."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.preemption import OwnPreemption
from extender_service.framework.interface import PostFilterResult
from extender_service.framework.profile import Profile
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduler.attempt import Attempts, Preemption
from extender_service.scheduler.failure import Failure
from extender_service.scheduling.decision import Decision
from extender_service.scheduling.eviction import Evictions, Preemptor, Victim, victim_in
from tests.worlds.api_server.etcd import Change
from tests.worlds.api_server.kinds import PODS, Kind
from tests.worlds.invariants.insides import SchedulerInsides, scheduler_insides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.http_face import Served

_NEVER: Final = "Never"


class _Rank(NamedTuple):
    """What a pod's priority class gives it, which never changes."""

    priority: int
    preemption_policy: str


class _Eviction(NamedTuple):
    """Which process evicts which pod for which other one, both by UID, and from which node."""

    who: str
    preemptor: str
    node_name: str
    victim: str


class VictimsChosen:
    """A pod that may preempt others gets victims of lower priority, which count on the node that it is nominated for.

    A process evicts only such victims, as it has chosen them: for that pod, and from that node. Where they count is
    judged in the moment in which it chooses, by what it knows then: its watch may lag, and much may happen before it
    evicts them. A process deletes no pods except those.
    """

    name = "victims chosen"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._programs = {program.name: program for program in observed.programs}
        self._ranks: dict[str, _Rank] = {}
        self._followed: set[tuple[str, int]] = set()
        self._chosen: set[_Eviction] = set()
        self._evicted: set[tuple[str, str]] = set()
        observed.model.etcd.listeners.append(self._see)
        observed.listen(self._check)

    def _see(self, kind: Kind, change: Change) -> None:
        if kind is PODS and change.before is None and change.after is not None:
            value = change.after.value
            rank = _Rank(value["spec"].get("priority", 0), value["spec"].get("preemptionPolicy", ""))
            self._ranks[value["metadata"]["uid"]] = rank

    def _check(self, served: Served) -> None:
        if served.who not in self._programs:
            return
        self._follow(served.who)
        if key := key_of_deleted(served):
            options = msgspec.json.decode(served.request.body) if served.request.body else {}
            uid = options.get("preconditions", {}).get("uid", "")
            if (served.who, uid) not in self._evicted:
                self._observed.violated(self, f"{served.who} deletes {key}, which it does not evict")

    def _follow(self, who: str) -> None:
        """Follow what a new process chooses. It asks the API server before it decides anything."""
        program = self._programs[who]
        if (who, program.starts) in self._followed:
            return
        scheduler, service = scheduler_insides(program), service_insides(program)
        if scheduler is not None:
            self._follow_scheduler(who, scheduler)
        elif service is not None and service.extender._preemption is not None:
            self._follow_service(who, service.cluster, service.extender._preemption)
        if scheduler is not None or service is not None:
            self._followed.add((who, program.starts))

    def _follow_scheduler(self, who: str, insides: SchedulerInsides) -> None:
        attempts: Attempts = insides.scheduler._attempts
        post_filter = attempts._post_filter

        async def post_filter_and_note(decision: Decision, also_blamed: Collection[str] = ()) -> Preemption | Failure:
            outcome = await post_filter(decision, also_blamed)
            if isinstance(outcome, Preemption):
                self._note_choice(who, insides.cluster, decision.question.pod, outcome.node_name, outcome.victims)
            return outcome

        attempts._post_filter = post_filter_and_note  # type: ignore[method-assign]
        self._follow_evictions(who, insides.scheduler._preempting._evictions)

    def _follow_service(self, who: str, cluster: Cluster, preemption: OwnPreemption) -> None:
        begin = preemption._begin

        def begin_and_note(pod: Pod, uid: str, profile: Profile, result: PostFilterResult) -> None:
            victims = [victim_in(cluster, slot) for slot in result.victims]
            self._note_choice(who, cluster, pod, result.node_name, victims)
            begin(pod, uid, profile, result)

        preemption._begin = begin_and_note  # type: ignore[method-assign]
        self._follow_evictions(who, preemption._evictions)

    def _follow_evictions(self, who: str, evictions: Evictions) -> None:
        evict = evictions._evict_victim

        async def evict_and_note(preemptor: Preemptor, victim: Victim) -> bool:
            self._note_eviction(who, preemptor.pod, preemptor.node_name, victim)
            return await evict(preemptor, victim)

        evictions._evict_victim = evict_and_note  # type: ignore[method-assign]

    def _note_choice(
        self, who: str, cluster: Cluster, preemptor: Pod, node_name: str, victims: Iterable[Victim]
    ) -> None:
        uid = pod_uid(preemptor)
        for victim in victims:
            self._chosen.add(_Eviction(who, uid, node_name, victim.uid))
            for problem in self._problems(cluster, uid, node_name, victim):
                text = f"{who} makes {_key(victim)} go from {node_name} for {pod_name(preemptor)}"
                self._observed.violated(self, f"{text}, {problem}")

    def _problems(self, cluster: Cluster, preemptor: str, node_name: str, victim: Victim) -> Iterator[str]:
        rank, other = self._ranks.get(preemptor), self._ranks.get(victim.uid)
        if rank is None or other is None:
            yield "one of which never was"
            return
        if rank.preemption_policy == _NEVER:
            yield "which may not preempt others"
        if other.priority >= rank.priority:
            yield f"whose priority is {rank.priority}, and not higher than {other.priority}"
        if cluster.slot_on(victim.uid, node_name) is None:
            yield "where it does not count"

    def _note_eviction(self, who: str, preemptor: Pod, node_name: str, victim: Victim) -> None:
        self._evicted.add((who, victim.uid))
        if _Eviction(who, pod_uid(preemptor), node_name, victim.uid) not in self._chosen:
            text = f"{who} evicts {_key(victim)} from {node_name} for {pod_name(preemptor)}"
            self._observed.violated(self, f"{text}, and had not chosen it for that")

    def at_end(self) -> None:
        """All was looked at as it came."""


def key_of_deleted(served: Served) -> str:
    """Return the pod (namespace/name) that a request deletes, empty if it is none of that kind."""
    path = served.request.path
    if served.request.method != "DELETE" or "/pods/" not in path:
        return ""
    return path.partition("/namespaces/")[2].replace("/pods/", "/", 1)


def _key(victim: Victim) -> str:
    return f"{victim.namespace}/{victim.name}"

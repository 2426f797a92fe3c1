"""What holds of pods that wait for an event."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from extender_service.cluster.state.placements import Placement
from extender_service.kube.types.pods import pod_uid
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.queue.scheduling_queue import MAX_IN_UNSCHEDULABLE_SECONDS
from extender_service.queue.waiting_queues import UNSCHEDULABLE
from extender_service.scheduler.nominated_pods import nominations
from tests.worlds.api_server.etcd import Item
from tests.worlds.api_server.kinds import PODS
from tests.worlds.invariants.insides import SchedulerInsides, ServiceInsides, scheduler_insides, service_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.invariants.truth import Judge
from tests.worlds.simulation.process import Process
from tests.worlds.waits.excuses import Excuses
from tests.worlds.waits.parties import is_held_up, only_leader
from tests.worlds.waits.versions import RESTORED_SECONDS, LatestVersions, known_versions

_SECONDS_BETWEEN_LOOKS: Final = 1.0
# At more looks than these, a second apart, no pod may wait that fits: so it has fitted for 2 s.
_MOST_LOOKS: Final = 3
_REPORTED: Final = -1_000_000
# Faults that keep no program from working, and no request from being answered.
_HARMLESS: Final = ("drift", "forget-versions", "label-burst", "lag", "no-nodes")
# After other faults, programs start, connect again and repeat what has failed.
_RECOVERS_SECONDS: Final = 60.0
# So many kinds of pods are judged at each look, the others at the next ones.
_MOST_JUDGED: Final = 10
_HARD: Final = "DoNotSchedule"
# Every 30 s, the queue tries all again that have waited for five minutes.
_LEFTOVER_SECONDS: Final = MAX_IN_UNSCHEDULABLE_SECONDS + 30.0

_Insides = SchedulerInsides | ServiceInsides


class _Fitting(msgspec.Struct):
    """A pod that fits: when it came back from its last attempt, and at how many looks it has fitted since."""

    queued_at: float
    looks: int = 0


class FittingPodsTried:
    """No pod stays in the unschedulable part of the leader's queue for longer than 2 s, if it fits on a node all the
    while, and the leader, and the service that it asks, know all that the API server has. So a pod waits no longer than
    their watches lag, and 2 s; backoff comes on top, as in kube-scheduler.

    The engine judges each second whether it fits, on what the API server has, with the leader's nominations, and beside
    the pods that have a place ahead of that: those that are being bound, and those that the service expects, which are
    not judged themselves. Nor are pods that are being deleted, which no attempt takes on; pods with claims while
    volumes are assumed; and pods that are to be near to others or spread while pods have a place ahead of that: no
    event reports it, in kube-scheduler either.

    A look counts for nothing at which the leader or the service does not know all, is frozen, or computes. With a
    service, none does during faults of programs and requests, and for 60 s, unless they are over for good: it needs the
    API server to have a pod tried again.

    Excused is what kube-scheduler leaves waiting, too (Excuses).
    """

    name = "fitting pods tried"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._excuses = Excuses(observed)
        self._latest = LatestVersions(observed.model.etcd)
        self._judge: Judge | None = None
        self._quiet_until = 0.0
        disturbing = [fault for fault in observed.faults if fault.kind not in _HARMLESS]
        spans = [(fault.at, fault.until + _RECOVERS_SECONDS) for fault in disturbing]
        self._disturbed = [] if observed.service is None else spans
        self._judged = 0
        self._last_judged = ""
        self._fits: dict[bytes, Sequence[str]] = {}
        self._forms: dict[str, tuple[int, bytes]] = {}
        self._fitting: dict[str, _Fitting] = {}
        self._judged_at: object = None
        observed.model.etcd.on_restore.append(self._wait_for_lists)
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def _wait_for_lists(self) -> None:
        self._quiet_until = self._observed.now + RESTORED_SECONDS

    def _look(self) -> None:
        observed = self._observed
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)
        self._excuses.look()
        found = only_leader(observed)
        waiting = _unschedulable(found[1]) if found is not None and self._counts(observed.now) else {}
        self._keep(waiting)
        if found is None or not waiting:
            return
        parties = [*self._parties(*found)]
        if all(self._is_current(process, insides) for process, insides in parties):
            self._judge_all(found[1], waiting, [insides for _, insides in parties if insides is not None])

    def _counts(self, now: float) -> bool:
        """Return whether a look counts, as far as faults go."""
        is_over = now >= self._observed.calm_from
        return now >= self._quiet_until and (is_over or not any(begin <= now < end for begin, end in self._disturbed))

    def _keep(self, waiting: Mapping[str, QueuedPodInfo]) -> None:
        """Forget the pods that do not wait any more, or that were tried again since they fitted."""
        for uid in self._fitting.keys() - waiting.keys():
            del self._fitting[uid]
        for uid in self._forms.keys() - waiting.keys():
            del self._forms[uid]
        for uid, fitting in [*self._fitting.items()]:
            if fitting.queued_at != waiting[uid].queued_at:
                del self._fitting[uid]

    def _judge_all(
        self, leader: SchedulerInsides, waiting: Mapping[str, QueuedPodInfo], parties: Sequence[_Insides]
    ) -> None:
        placements = {each.uid: each for insides in parties for each in insides.cluster.placements}
        assumes_volumes = any(insides.cluster.storage.sizes()["assumed"] for insides in parties)
        judge = self._judge_of_now(leader, placements)
        self._judged = 0
        for uid in self._in_turn(waiting):
            item = self._observed.model.etcd.get(PODS, waiting[uid].key)
            if item is None or uid in placements or (placements and _depends_on_others(item)):
                continue
            if "deletionTimestamp" in item.value["metadata"]:
                continue
            if not (assumes_volumes and _has_claims(item)):
                self._judge_pod(leader, judge, uid, waiting[uid], item)

    def _in_turn(self, waiting: Mapping[str, QueuedPodInfo]) -> list[str]:
        """Return the pods in the order in which to judge them: first those that have fitted so far, then the others,
        beginning behind the last one that was judged before."""
        others = [uid for uid in waiting if uid not in self._fitting]
        begin = others.index(self._last_judged) + 1 if self._last_judged in others else 0
        return [*self._fitting, *others[begin:], *others[:begin]]

    def _judge_pod(self, leader: SchedulerInsides, judge: Judge, uid: str, info: QueuedPodInfo, item: Item) -> None:
        node_names = self._feasible_now(judge, uid, item)
        if not node_names or self._excuses.cover(leader, info, node_names):
            self._fitting.pop(uid, None)
            return
        self._note_fit(uid, info)

    def _note_fit(self, uid: str, info: QueuedPodInfo) -> None:
        fitting = self._fitting.setdefault(uid, _Fitting(info.queued_at))
        fitting.looks += 1
        if fitting.looks > _MOST_LOOKS:
            fitting.looks = _REPORTED
            self._observed.violated(self, f"pod {info.key} waits for an event, though it has fitted for some seconds")

    def excuses(self, uid: str, node_names: Sequence[str]) -> bool:
        """Return whether a pod that fits on these nodes waits for an event that kube-scheduler would miss, too, and not
        yet for so long that the queue tries it again without one.
        """
        for replica in self._observed.replicas:
            insides = scheduler_insides(replica)
            if insides is None or not insides.is_leading:
                continue
            for entry in insides.queue.entries():
                if pod_uid(entry.info.pod) == uid and entry.queue == UNSCHEDULABLE:
                    has_time = insides.queue._clock() - entry.info.queued_at < _LEFTOVER_SECONDS
                    return has_time and self._excuses.cover(insides, entry.info, node_names)
        return False

    def _judge_of_now(self, leader: SchedulerInsides, placements: Mapping[str, Placement]) -> Judge:
        """Return the judge, with what is stored now, these placements, and the leader's nominations."""
        judge = self._judge
        if judge is None:
            judge = self._judge = Judge(self._observed.model.etcd, self._observed.rules)
            judge.follow()
        judge.refresh()
        judge.place(placements)
        judge.engine._nominated_for = nominations(judge.cluster, leader.queue)
        state = (judge.cluster.version, tuple(leader.queue.nominator.node_of.items()))
        if state != self._judged_at:
            self._judged_at = state
            self._fits.clear()
        return judge

    def _feasible_now(self, judge: Judge, uid: str, item: Item) -> Sequence[str]:
        """Return the nodes on which a pod fits. Decide about it, unless nothing has changed since the last time."""
        form = self._form_of(uid, item)
        known = self._fits.get(form)
        if known is None:
            if self._judged == _MOST_JUDGED:
                return ()
            self._judged += 1
            self._last_judged = uid
            known = self._fits[form] = judge.feasible(item)
        return known

    def _form_of(self, uid: str, item: Item) -> bytes:
        """Return what pods have in common that fit on the same nodes, unless one of them has a nomination of its own,
        or claims that are named after it."""
        revision, form = self._forms.get(uid, (-1, b""))
        if revision != item.revision:
            metadata, spec = item.value["metadata"], item.value["spec"]
            is_own = any("ephemeral" in volume for volume in spec.get("volumes", ())) or "resourceClaims" in spec
            owners = [owner["uid"] for owner in metadata.get("ownerReferences", ())]
            parts = (uid if is_own else "", metadata["namespace"], metadata.get("labels"), owners, spec)
            form = msgspec.json.encode(parts)
            self._forms[uid] = item.revision, form
        return uid.encode() if self._excuses.is_nominated(uid) else form

    def _parties(self, replica: Process, leader: SchedulerInsides) -> Iterator[tuple[Process, _Insides | None]]:
        """Yield the leader and the service that it asks."""
        if self._observed.service is not None:
            yield self._observed.service, service_insides(self._observed.service)
        yield replica, leader

    def _is_current(self, process: Process, insides: _Insides | None) -> bool:
        """Return whether a program runs, and knows the latest versions."""
        if insides is None or is_held_up(process, self._observed.now):
            return False
        latest = self._latest.now()
        return all(version >= latest.get(kind, 0) for kind, version in known_versions(insides))

    def at_end(self) -> None:
        """All was looked at as time went on."""


def _unschedulable(leader: SchedulerInsides) -> dict[str, QueuedPodInfo]:
    """Return the pods in the unschedulable part of a queue, by UID."""
    entries = leader.queue.entries()
    return {pod_uid(entry.info.pod): entry.info for entry in entries if entry.queue == UNSCHEDULABLE}


def _has_claims(item: Item) -> bool:
    """Return whether a pod has claims for volumes."""
    return any("persistentVolumeClaim" in each or "ephemeral" in each for each in item.value["spec"].get("volumes", ()))


def _depends_on_others(item: Item) -> bool:
    """Return whether a pod may fit on a node only because of where other pods are."""
    spec = item.value["spec"]
    near = spec.get("affinity", {}).get("podAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    return bool(near) or any(each["whenUnsatisfiable"] == _HARD for each in spec.get("topologySpreadConstraints", ()))

"""What holds of pods that wait for an event."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

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
from tests.worlds.waits.versions import RESTORED_SECONDS, LatestVersions, known_versions

_SECONDS_BETWEEN_LOOKS: Final = 1.0
# A pod may wait so long once all know that it fits; up to a second more passes before it is looked at.
_MOST_SECONDS: Final = 2.0 + _SECONDS_BETWEEN_LOOKS
# So many kinds of pods are judged at each look, the others at the next ones.
_MOST_JUDGED: Final = 10

# A program that computes for longer than that was stalled by a fault.
_COMPUTES_SECONDS: Final = 0.01
# Every 30 s, the queue tries all again that have waited for five minutes.
_LEFTOVER_SECONDS: Final = MAX_IN_UNSCHEDULABLE_SECONDS + 30.0


_Insides = SchedulerInsides | ServiceInsides


class FittingPodsTried:
    """No pod stays in the unschedulable part of the leader's queue for longer than 2 s, if it fits on a node all the
    while, and the leader, and the service that it asks, know all that the API server has. So a pod waits no longer than
    their watches lag, and 2 s; backoff comes on top, as in kube-scheduler.

    The engine judges each second whether it fits, on what the API server has, with the leader's nominations. It is not
    looked at while a binding is under way, whose room only the leader knows of, while the leader or the service is
    frozen or computes, and with a service, before faults are over: it needs the API server to have a pod tried again.

    Excused is what kube-scheduler leaves waiting, too (Excuses).
    """

    name = "fitting pods tried"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._judge: Judge | None = None
        self._excuses = Excuses(observed)
        self._latest = LatestVersions(observed.model.etcd)
        self._quiet_until = 0.0
        self._judged = 0
        self._last_judged = ""
        self._fits: dict[bytes, Sequence[str]] = {}
        self._forms: dict[str, tuple[int, bytes]] = {}
        self._fits_since: dict[str, float] = {}
        self._judged_at: object = None
        observed.model.etcd.on_restore.append(self._wait_for_lists)
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def _wait_for_lists(self) -> None:
        self._quiet_until = self._observed.now + RESTORED_SECONDS

    def _look(self) -> None:
        observed = self._observed
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)
        self._excuses.look()
        leader = self._leader()
        begins_at = self._quiet_until if observed.service is None else max(self._quiet_until, observed.calm_from)
        waiting = {} if leader is None or observed.now < begins_at else _unschedulable(leader)
        if leader is None or not waiting or not self._all_are_current(leader):
            self._fits_since.clear()
            return
        for uid in self._fits_since.keys() - waiting.keys():
            del self._fits_since[uid]
        for uid in self._forms.keys() - waiting.keys():
            del self._forms[uid]
        judge = self._judge_of_now(leader)
        self._judged = 0
        for uid in self._in_turn(waiting):
            self._judge_pod(leader, judge, uid, waiting[uid])

    def _in_turn(self, waiting: Mapping[str, QueuedPodInfo]) -> list[str]:
        """Return the pods in the order in which to judge them: first those that have fitted so far, then the others,
        beginning behind the last one that was judged before."""
        others = [uid for uid in waiting if uid not in self._fits_since]
        begin = others.index(self._last_judged) + 1 if self._last_judged in others else 0
        return [*self._fits_since, *others[begin:], *others[:begin]]

    def _judge_pod(self, leader: SchedulerInsides, judge: Judge, uid: str, info: QueuedPodInfo) -> None:
        now, key = self._observed.now, info.key
        node_names = self._feasible_now(judge, uid, key)
        if not node_names or self._excuses.cover(leader, info, node_names):
            self._fits_since.pop(uid, None)
        elif now - self._fits_since.setdefault(uid, now) > _MOST_SECONDS:
            self._fits_since[uid] = float("inf")  # it is reported once
            self._observed.violated(self, f"pod {key} waits for an event, though it has fitted for some seconds")

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

    def _judge_of_now(self, leader: SchedulerInsides) -> Judge:
        """Return the judge, with what is stored now and the leader's nominations."""
        judge = self._judge
        if judge is None:
            judge = self._judge = Judge(self._observed.model.etcd, self._observed.rules)
            judge.follow()
        judge.refresh()
        judge.engine._nominated_for = nominations(judge.cluster, leader.queue)
        state = (judge.cluster.version, tuple(leader.queue.nominator.node_of.items()))
        if state != self._judged_at:
            self._judged_at = state
            self._fits.clear()
        return judge

    def _feasible_now(self, judge: Judge, uid: str, key: str) -> Sequence[str]:
        """Return the nodes on which a pod fits. Decide about it, unless nothing has changed since the last time."""
        item = self._observed.model.etcd.get(PODS, key)
        if item is None:
            return ()
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

    def _leader(self) -> SchedulerInsides | None:
        """Return the only replica that leads, if there is one."""
        leading = [
            insides
            for replica in self._observed.replicas
            if (insides := scheduler_insides(replica)) is not None and self._leads(insides)
        ]
        return leading[0] if len(leading) == 1 else None

    def _all_are_current(self, leader: SchedulerInsides) -> bool:
        """Return whether the leader and the service run, know the latest versions, and have nothing of their own."""
        return all(self._is_current(each, insides) for each, insides in self._parties(leader))

    def _leads(self, insides: SchedulerInsides) -> bool:
        return insides.is_leading and (insides.elector is None or insides.elector.problem() is None)

    def _parties(self, leader: SchedulerInsides) -> Iterator[tuple[Process, _Insides | None]]:
        for replica in self._observed.replicas:
            insides = scheduler_insides(replica)
            if insides is not None and insides.cluster is leader.cluster:
                yield replica, insides
        if self._observed.service is not None:
            yield self._observed.service, service_insides(self._observed.service)

    def _is_current(self, process: Process, insides: _Insides | None) -> bool:
        if insides is None or process.loop.stops or process.loop._busy_until > self._observed.now + _COMPUTES_SECONDS:
            return False
        if len(insides.cluster.placements) or insides.cluster.storage.sizes()["assumed"]:
            return False
        latest = self._latest.now()
        return all(version >= latest.get(kind, 0) for kind, version in known_versions(insides))

    def at_end(self) -> None:
        """All was looked at as time went on."""


def _unschedulable(leader: SchedulerInsides) -> dict[str, QueuedPodInfo]:
    """Return the pods in the unschedulable part of a queue, by UID."""
    entries = leader.queue.entries()
    return {pod_uid(entry.info.pod): entry.info for entry in entries if entry.queue == UNSCHEDULABLE}

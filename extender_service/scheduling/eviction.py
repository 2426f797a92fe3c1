"""Carries preemption out: evicts victims, and takes back the nominations that lose their room.

(prepareCandidate and prepareCandidateAsync in framework/preemption/executor.go)
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.profile import Profile
from extender_service.framework.running_preemptions import RunningPreemption, RunningPreemptions
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.writing.event_recorder import ObjectReference, Occurrence
from extender_service.scheduling import pod_events
from extender_service.scheduling.engine import Engine
from extender_service.scheduling.pod_patches import nomination_patch, victim_patch
from extender_service.scheduling.pod_writes import PodWrites
from extender_service.scheduling.write_turns import WriteTurns, not_held_back
from extender_service.seams import WallClock

# So many victims are deleted at once, besides those whose deletion hangs. More would keep bindings waiting at the
# client's rate limit.
MOST_VICTIMS_AT_ONCE: Final = 50


class Victim(msgspec.Struct, frozen=True):
    """A pod that is to go. `terminating` is whether it is being deleted, `preempted` whether by a scheduler."""

    namespace: str
    name: str
    uid: str
    terminating: bool = False
    preempted: bool = False


def victim_in(cluster: Cluster, slot: int) -> Victim:
    """Return the pod in a slot of the pod table as a victim."""
    pod, pods = cluster.pods[slot], cluster.pods
    return Victim(pod.namespace, pod.name, pod.uid, bool(pods.terminating[slot]), bool(pods.preempted[slot]))


class Preemptor(NamedTuple):
    """A pod for which victims are evicted, the node where that makes room, and the PostFilter plugin that chose it."""

    pod: Pod
    profile: Profile
    node_name: str
    plugin: str


class Evictions:
    """Evicts pods so that others fit, few at once.

    A victim is deleted, unless its binding waits: then that ends instead. One that is gone already is as good as
    deleted, without an event. `held_back_seconds` returns how long the client's rate limit would hold back a request.
    `on_taken_back` is called for a pod whose nomination is about to be taken back.
    """

    def __init__(
        self,
        engine: Engine,
        preemptions: RunningPreemptions,
        writes: PodWrites,
        record: Callable[[Occurrence], None],
        wall_clock: WallClock,
        held_back_seconds: Callable[[], float] = not_held_back,
        *,
        on_taken_back: Callable[[Pod], object] = lambda _: None,
    ) -> None:
        self._engine = engine
        self._rules = engine.cluster.rules
        self._preemptions = preemptions
        self._writes = writes
        self._record = record
        self._wall_clock = wall_clock
        self._on_taken_back = on_taken_back
        self._turns = WriteTurns(MOST_VICTIMS_AT_ONCE, held_back_seconds)

    def to_evict(self, victims: Sequence[Victim]) -> Sequence[Victim]:
        """Return the victims without those that are being deleted already, in releases that leave these alone."""
        if not self._rules.terminating_victims_left_alone:
            return victims
        return [victim for victim in victims if not victim.terminating]

    async def evict(
        self, preemptor: Preemptor, victims: Sequence[Victim], nominated: Callable[[], Iterable[Pod]]
    ) -> None:
        """Evict the victims, all at once; then take back the nominations for this node of the pods that `nominated`
        returns by then: evictions may take long, and a pod may have been nominated for another node meanwhile.

        Raises KubeError if a victim could not be deleted; others may be.
        """
        await _all(self._evict_victim(preemptor, victim) for victim in victims)
        self._take_back(nominated())

    def begin(self, pod: Pod) -> RunningPreemption:
        """Keep a pod out of the queue until `evict_in_background` has ended."""
        return self._preemptions.begin(pod_uid(pod))

    async def evict_in_background(
        self,
        running: RunningPreemption,
        preemptor: Preemptor,
        victims: Sequence[Victim],
        nominated: Iterable[Pod],
    ) -> bool:
        """Take back the nominations of `nominated` pods for this node; then evict the victims, the last one by itself.

        There is at least one victim. Returns whether the preemptor is to be tried at once, since no event will wake it.
        Raises KubeError if anything failed; the last victim is evicted only if all others were.
        """
        uid = pod_uid(preemptor.pod)
        *others, last = victims
        taken_back = self._take_back(nominated)
        try:
            if taken_back:
                await asyncio.wait(taken_back)
            await _all(self._evict_victim(preemptor, victim) for victim in others)
            # Its deletion came while PreEnqueue kept the preemptor out: kube-scheduler would leave it there.
            is_event_over = self._engine.cluster.pod(last.uid) is None
            if self._rules.preemptors_wait_for_last_victim:
                running.last_victim = (last.namespace, last.name)
            else:
                self._preemptions.end(uid, running)
            is_sent_back = await self._evict_victim(preemptor, last)
        finally:
            self._preemptions.end(uid, running)
        for write in taken_back:
            write.result()
        if is_sent_back and self._rules.retries_preemptor_of_requeued_victim:
            await self._end_of_binding(preemptor.profile, last)
            return True
        return is_event_over

    async def _end_of_binding(self, profile: Profile, victim: Victim) -> None:
        """Wait until a victim that was sent back counts on its node no more.

        If its preemptor were tried before, it would preempt the victim once more, and have it deleted.
        """
        waiting = profile.waiting_pods.get(victim.uid)
        if waiting is not None:
            await waiting.ended.wait()
        under_way = self._engine.binder.binding_of(victim.uid)
        if under_way is not None:
            await asyncio.wait([under_way.task])

    def _take_back(self, nominated: Iterable[Pod]) -> list[asyncio.Task[None]]:
        taken_back = []
        for pod in nominated:
            uid = pod_uid(pod)
            if pod.status.nominated_node_name or uid in self._writes:  # a nomination may still be on its way
                self._on_taken_back(pod)
                taken_back.append(self._writes.patch_status(pod, nomination_patch(pod, "")))
        return taken_back

    async def _evict_victim(self, preemptor: Preemptor, victim: Victim) -> bool:
        """Evict a victim; returns whether it was sent back to the queue."""
        is_sent_back = is_rejected = False
        if self._rules.victims_sent_back:
            is_sent_back = self._send_back(preemptor, victim)
        else:
            is_rejected = self._reject(preemptor, victim)
        is_deletion = not is_sent_back and not is_rejected
        scheduler_name = preemptor.pod.spec.scheduler_name
        if is_deletion and not await self._delete(scheduler_name, victim):
            return False
        reference = ObjectReference("v1", "Pod", victim.namespace, victim.name, victim.uid)
        self._record(
            pod_events.preempted(
                reference,
                pod_events.pod_reference(preemptor.pod),
                preemptor.node_name,
                is_deletion=is_deletion,
                is_sent_back=is_sent_back,
                controller=scheduler_name,
            )
        )
        return is_sent_back

    def _send_back(self, preemptor: Preemptor, victim: Victim) -> bool:
        """End a binding that waits in Permit or PreBind, so that the pod is tried again; returns whether it waited."""
        waiting = preemptor.profile.waiting_pods.get(victim.uid)
        if waiting is not None:
            return waiting.preempt(preemptor.plugin, "preempted")
        return self._engine.preempt_in_pre_bind(victim.uid, f"preempted by {preemptor.plugin}")

    def _reject(self, preemptor: Preemptor, victim: Victim) -> bool:
        """Reject a pod that waits in Permit; returns whether it was listed as waiting."""
        waiting = preemptor.profile.waiting_pods.get(victim.uid)
        if waiting is not None:
            waiting.reject(preemptor.plugin, "preempted")
        return waiting is not None

    async def _delete(self, scheduler_name: str, victim: Victim) -> bool:
        """Delete a victim, and return whether it was there."""
        now = None if victim.preempted else self._wall_clock()
        patch = victim_patch(victim.uid, scheduler_name, now)
        async with self._turns.turn(victim.namespace) as turn:
            return await self._writes.delete(victim.namespace, victim.name, victim.uid, patch, turn.begin)


async def _all(evictions: Iterable[Awaitable[object]]) -> None:
    """Await all evictions, then raise what the first one of them raised, if any did."""
    for outcome in await asyncio.gather(*evictions, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome

"""Carries preemption out: deletes victims, and takes back the nominations that lose their room (prepareCandidate)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from extender_service.cluster.state.cluster import Cluster
from extender_service.framework.profile import Profile
from extender_service.kube.api_errors import ApiError
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.kube.writing.event_recorder import ObjectReference, Occurrence
from extender_service.scheduler.pod_status import victim_patch, without_nomination
from extender_service.scheduler.pod_writes import PodWrites
from extender_service.scheduling import pod_events
from extender_service.seams import WallClock

# So many victims are deleted at once. More would keep bindings waiting at the client's rate limit.
MOST_VICTIMS_AT_ONCE: Final = 50

# No pod has the victim's name any more, or one with another UID has.
_GONE: Final = (404, 409)


class PodApi(Protocol):
    """Where pods are written. All methods raise KubeError."""

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> None:
        """Apply a strategic merge patch to a pod's status, if it has the UID that the patch names."""

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete a pod, if it has this UID."""


class Victim(msgspec.Struct, frozen=True):
    """A pod that is to be deleted. `preempted` is whether a scheduler has done so before, and it takes its time."""

    namespace: str
    name: str
    uid: str
    preempted: bool


def victim_in(cluster: Cluster, slot: int) -> Victim:
    """Return the pod in a slot of the pod table as a victim."""
    pod = cluster.pods[slot]
    return Victim(pod.namespace, pod.name, pod.uid, bool(cluster.pods.preempted[slot]))


class Evictions:
    """Deletes pods so that others fit, few at once."""

    def __init__(
        self, api: PodApi, writes: PodWrites, record: Callable[[Occurrence], None], wall_clock: WallClock
    ) -> None:
        self._api = api
        self._writes = writes
        self._record = record
        self._wall_clock = wall_clock
        self._turns = asyncio.Semaphore(MOST_VICTIMS_AT_ONCE)

    async def make_room(
        self, profile: Profile, preemptor: Pod, node_name: str, victims: Sequence[Victim], nominated: Sequence[Pod]
    ) -> None:
        """Delete the victims, all at once; then take back the nominations of `nominated` pods for this node.

        A victim that waits in Permit is rejected instead; one that is gone already is as good as deleted, without an
        event. Raises KubeError if a victim could not be deleted; others may be.
        """
        outcomes = await asyncio.gather(
            *(self._evict(profile, preemptor, node_name, victim) for victim in victims), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        for pod in nominated:
            if pod.status.nominated_node_name:
                self._writes.add(pod_uid(pod), pod_name(pod), self._patch(pod, without_nomination(pod)))

    async def _evict(self, profile: Profile, preemptor: Pod, node_name: str, victim: Victim) -> None:
        waiting = profile.waiting_pods.get(victim.uid)
        if waiting is not None:
            waiting.reject("DefaultPreemption", "preempted")
        elif not await self._delete(preemptor, victim):
            return
        reference = ObjectReference("v1", "Pod", victim.namespace, victim.name, victim.uid)
        controller = preemptor.spec.scheduler_name
        by = pod_events.pod_reference(preemptor)
        self._record(pod_events.preempted(reference, by, node_name, controller=controller))

    async def _delete(self, preemptor: Pod, victim: Victim) -> bool:
        """Delete a victim, and return whether it was there."""
        now = None if victim.preempted else self._wall_clock()
        patch = victim_patch(victim.uid, preemptor.spec.scheduler_name, now)
        namespace, name = victim.namespace, victim.name
        is_gone = False

        async def unless_gone(write: Awaitable[object]) -> None:
            nonlocal is_gone
            try:
                await write
            except ApiError as error:
                if error.status_code not in _GONE:
                    raise
                is_gone = True

        async def mark() -> None:
            await unless_gone(self._api.patch_pod_status(namespace, name, patch))

        async def delete() -> None:
            if not is_gone:
                await unless_gone(self._api.delete_pod(namespace, name, victim.uid))

        async with self._turns:
            for write in (mark, delete):
                await self._writes.add(victim.uid, f"{namespace}/{name}", write)
        return not is_gone

    def _patch(self, pod: Pod, patch: Mapping[str, Any]) -> Callable[[], Awaitable[object]]:
        return lambda: self._api.patch_pod_status(pod.metadata.namespace, pod.metadata.name, patch)

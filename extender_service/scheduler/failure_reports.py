"""What the API server is to show of pods whose attempts failed: the condition PodScheduled, and the nominated node.

kube-scheduler patches a pod before it turns to the next, so at most one patch waits. Here the loop goes on, and
attempts may fail faster than the API server takes patches. So only the latest failure of each pod is kept, and few
patches are under way at once: a binding waits for some of them at the client's rate limit, not for thousands.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduler.failure import Failure
from extender_service.scheduler.pod_lister import PodLister
from extender_service.scheduler.pod_status import failure_patch
from extender_service.scheduling.eviction import PodApi
from extender_service.scheduling.pod_writes import PodWrites, cancelled
from extender_service.seams import WallClock

# A second of the client's default rate (clientConnection.qps).
MOST_REPORTS_AT_ONCE: Final = 50


class _Report(msgspec.Struct, frozen=True, gc=False):
    """A failure that is not written yet. The pod is that of the attempt."""

    pod: Pod
    failure: Failure
    at_seconds: float


class FailureReports:
    """Patches pods in the background, in the order in which they failed. `writes` keeps the order for each pod.

    `with_generation`, conditions have the generation of the pod.
    """

    def __init__(
        self,
        api: PodApi,
        writes: PodWrites,
        pending: PodLister,
        wall_clock: WallClock,
        *,
        with_generation: bool = False,
    ) -> None:
        self._api = api
        self._writes = writes
        self._pending = pending
        self._wall_clock = wall_clock
        self._with_generation = with_generation
        self._waiting: OrderedDict[str, _Report] = OrderedDict()
        self._writers: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """How many reports wait or are being written."""
        return len(self._waiting) + len(self._writers)

    def add(self, pod: Pod, failure: Failure) -> None:
        """Report why an attempt failed, instead of an earlier failure of the pod that is not written yet."""
        uid = pod_uid(pod)
        earlier = self._waiting.get(uid)
        if earlier is not None and failure.nomination is None:  # the earlier one is still to be written
            failure = msgspec.structs.replace(failure, nomination=earlier.failure.nomination)
        self._waiting[uid] = _Report(pod, failure, self._wall_clock())
        if len(self._writers) < MOST_REPORTS_AT_ONCE:
            writer = asyncio.create_task(self._write_all())
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)

    def forget(self, uid: str) -> None:
        """Drop what is not written yet about a pod that has a node now."""
        self._waiting.pop(uid, None)

    def forget_all(self) -> None:
        """Drop what is not written yet."""
        self._waiting.clear()

    async def close(self) -> None:
        """Wait until all reports are written."""
        while self._writers:
            await asyncio.wait(self._writers)

    async def abandon(self) -> None:
        """Drop all that is not written yet, and cancel what is being written."""
        self._waiting.clear()
        await cancelled([*self._writers])

    async def _write_all(self) -> None:
        while self._waiting:
            uid, report = self._waiting.popitem(last=False)
            write = self._write_of(report)
            if write is not None:
                await asyncio.wait([self._writes.add(uid, pod_name(report.pod), write)])

    def _write_of(self, report: _Report) -> Callable[[], Awaitable[object]] | None:
        """Return what to write; None if the pod is gone, is on a node, or shows all of it already."""
        pod = self._pending.get(pod_name(report.pod))
        if pod is None or pod_uid(pod) != pod_uid(report.pod):
            return None
        patch = failure_patch(pod, report.failure, report.at_seconds, with_generation=self._with_generation)
        if patch is None:
            return None
        namespace, name = pod.metadata.namespace, pod.metadata.name
        return lambda: self._api.patch_pod_status(namespace, name, patch)

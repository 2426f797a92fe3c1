"""Pods that Permit plugins make wait (framework/runtime/waiting_pods_map.go)."""

import asyncio
from collections.abc import Iterator, Mapping

from extender_service.config.durations import Duration
from extender_service.framework.status import Code, Status, unschedulable
from extender_service.kube.types.core import Pod

# The most seconds that one plugin may make a pod wait.
MAX_WAIT_SECONDS = 15 * 60.0


class WaitingPod:
    """A pod whose binding waits until every plugin that asked to wait allows it, one rejects it, or time runs out."""

    def __init__(self, pod: Pod, node_name: str, wait_seconds: Mapping[str, float]) -> None:
        """`wait_seconds` are the longest waits by plugin. Construct it in the event loop, as it starts timers."""
        loop = asyncio.get_running_loop()
        self.pod = pod
        self.node_name = node_name
        self._began_at = loop.time()
        # Set once the pod is listed no longer: its binding goes on, or has been undone.
        self.ended = asyncio.Event()
        self._outcome: asyncio.Future[Status | None] = loop.create_future()
        self._wait_seconds = wait_seconds
        self._timers = {
            plugin: loop.call_later(seconds, self._time_out, plugin, seconds)
            for plugin, seconds in wait_seconds.items()
        }

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed it yet."""
        return list(self._timers)

    @property
    def is_rejected(self) -> bool:
        """Whether a plugin rejected or preempted the pod, or time ran out; its binding is about to be undone."""
        return self._outcome.done() and (self._outcome.cancelled() or self._outcome.result() is not None)

    @property
    def is_waiting(self) -> bool:
        """Whether the pod is neither allowed nor rejected yet."""
        return not self._outcome.done()

    @property
    def times_out_at(self) -> float:
        """When the first of its waits ends, in seconds of the event loop's time."""
        return self._began_at + self._wait_seconds[self._first_to_end]

    def time_out(self) -> None:
        """Reject the binding now, as if the first of its waits had ended."""
        plugin = self._first_to_end
        self._time_out(plugin, self._wait_seconds[plugin])

    @property
    def _first_to_end(self) -> str:
        # The timers are not asked: uvloop's have no `when` for a wait of less than a millisecond.
        return min(self._timers, key=self._wait_seconds.__getitem__)

    def allow(self, plugin: str) -> None:
        """Record that a plugin allows the binding; the pod stops waiting once all have."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._settle(None)

    def reject(self, plugin: str, message: str) -> bool:
        """Reject the binding; return whether it waited: only the first rejection counts."""
        return self._settle(unschedulable(message).given_by(plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Have the binding fail without a rejection, so that the pod is tried again; return whether it waited."""
        return self._settle(Status(Code.ERROR, (message,)).given_by(plugin))

    async def wait(self) -> Status | None:
        """Wait; return None once all plugins allow the binding, or the rejection.

        Its code is ERROR if the pod was preempted.
        """
        try:
            return await self._outcome
        finally:
            self._stop_timers()

    def _time_out(self, plugin: str, seconds: float) -> None:
        waited = Duration(seconds * 10**9)
        self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def _settle(self, outcome: Status | None) -> bool:
        """End the wait with an outcome; return whether it had none yet."""
        if self._outcome.done():
            return False
        self._outcome.set_result(outcome)
        self._stop_timers()
        return True

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()


class WaitingPods:
    """The waiting pods by UID; plugins look here for those to allow or reject."""

    def __init__(self) -> None:
        self._by_uid: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._by_uid.values()))

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod with this UID, None if it does not wait."""
        return self._by_uid.get(uid)

    def add(self, uid: str, waiting: WaitingPod) -> None:
        """List a pod, so that plugins find it."""
        self._by_uid[uid] = waiting

    def remove(self, uid: str, waiting: WaitingPod) -> None:
        """List a pod no longer, unless it waits again with another binding."""
        waiting.ended.set()
        if self._by_uid.get(uid) is waiting:
            del self._by_uid[uid]

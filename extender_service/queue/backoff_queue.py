"""The pods that wait for the end of their backoff (backoffQ), in the order in which they leave it."""

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

from extender_service.config.rules import Rules
from extender_service.queue.keyed_heap import KeyedHeap
from extender_service.queue.pod_backoff import PodBackoff, backoff_end
from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.seams import Clock

FLUSH_BACKOFF_SECONDS: Final = 1.0


class BackoffQueue:
    """Pods by key, in the order in which their backoff ends.

    With the rule leaves_backoff_early, pods may leave before the end. Backoff then ends in whole seconds, and pods of
    one second are in the order of the active queue, `order`. Those that failed with an error wait for the end all the
    same, and so are in a heap of their own from v1.33 on.
    """

    def __init__(self, backoff: PodBackoff, rules: Rules, clock: Clock, order: Callable[[QueuedPodInfo], Any]) -> None:
        end = self.end = backoff_end(backoff, rules)
        self._clock = clock
        self._leaves_early = rules.leaves_backoff_early
        self._leaves_gated_out = not rules.backoff_follows_attempts
        self._includes_end = rules.backoff_includes_its_end
        self._rejected: KeyedHeap[QueuedPodInfo] = KeyedHeap(
            (lambda info: (end(info), order(info))) if self._leaves_early else end
        )
        self._failed = KeyedHeap(end) if self._includes_end else self._rejected
        self._heaps = (self._rejected, self._failed) if self._includes_end else (self._rejected,)

    def __len__(self) -> int:
        return sum(map(len, self._heaps))

    def __contains__(self, key: str) -> bool:
        return any(key in heap for heap in self._heaps)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Yield the pods, in no order."""
        return chain.from_iterable(self._heaps)

    @property
    def failed(self) -> Iterator[QueuedPodInfo]:
        """The pods that failed with an error, where they are in a heap of their own."""
        return iter(self._heaps[1] if len(self._heaps) > 1 else ())

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return the pod of a key, None if there is none."""
        for heap in self._heaps:
            info = heap.get(key)
            if info is not None:
                return info
        return None

    def is_backing_off(self, info: QueuedPodInfo) -> bool:
        """Return whether a pod still has to wait, whichever queue it is in."""
        end, now = self.end(info), self._clock()
        if self._includes_end:
            return end >= (math.floor(now) if self._leaves_early else now)
        return end > now and not (self._leaves_gated_out and info.gated)

    def add(self, info: QueuedPodInfo) -> None:
        """Add a pod, or take in that it has changed."""
        was_rejected = bool(info.unschedulable_plugins or info.pending_plugins)
        (self._rejected if was_rejected else self._failed).add(info.key, info)

    def remove(self, key: str) -> bool:
        """Remove the pod of a key; return whether there was one."""
        return any(heap.remove(key) for heap in self._heaps)

    @property
    def seconds_to_flush(self) -> float:
        """In how many seconds `pop_completed` is to be called: each second, where backoff ends in whole seconds just
        then (waitUntilAlignedWithOrderingWindow)."""
        if not self._leaves_early:
            return FLUSH_BACKOFF_SECONDS
        now = self._clock()
        return math.floor(now) + FLUSH_BACKOFF_SECONDS - now

    @property
    def may_leave(self) -> bool:
        """Whether `leave` returns a pod."""
        return self._leaves_early and bool(self._rejected)

    def leave(self) -> QueuedPodInfo | None:
        """Remove and return the first pod that may leave before the end of its backoff, None if there is none."""
        return self._rejected.pop() if self._leaves_early else None

    def pop_completed(self) -> Iterator[QueuedPodInfo]:
        """Remove and yield the pods whose backoff is over."""
        for heap in self._heaps:
            while (info := heap.peek()) is not None and not self.is_backing_off(info):
                heap.pop()
                yield info

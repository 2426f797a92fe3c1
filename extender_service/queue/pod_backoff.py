"""How long a pod waits after a failed attempt: twice as long each time, up to a maximum (calculateBackoffDuration)."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from extender_service.config.rules import Rules
from extender_service.queue.queued_pod import QueuedPodInfo

# When the backoff of a pod ends that does not back off.
NEVER: Final = -math.inf


class PodBackoff(NamedTuple):
    """The wait after the first attempt, and the longest one, in seconds."""

    initial_seconds: float
    maximum_seconds: float

    def seconds(self, attempts: int) -> float:
        """Return how long a pod waits after this many attempts; the initial time also before the first."""
        duration = self.initial_seconds
        if duration <= 0:
            return duration  # twice nothing stays nothing, however often the pod was tried
        for _ in range(attempts - 1):
            if duration > self.maximum_seconds - duration:
                return self.maximum_seconds
            duration += duration
        return duration

    def end(self, info: QueuedPodInfo) -> float:
        """Return when the pod may be tried again, in seconds of the queue's clock, as v1.31.1 does."""
        return info.queued_at + self.seconds(info.attempts)


DEFAULT_BACKOFF = PodBackoff(initial_seconds=1.0, maximum_seconds=10.0)


def backoff_end(backoff: PodBackoff, rules: Rules) -> Callable[[QueuedPodInfo], float]:
    """Return the function that says when a pod may be tried again, in a release; NEVER if it does not back off."""
    if not rules.backoff_follows_attempts:
        return backoff.end
    if rules.errors_back_off_apart and not backoff.maximum_seconds:
        return lambda _: NEVER
    count_of = _failures if rules.errors_back_off_apart else _attempts
    longest = backoff.maximum_seconds if rules.errors_back_off_apart else math.inf
    whole = math.floor if rules.leaves_backoff_early else float

    def end(info: QueuedPodInfo) -> float:
        count = count_of(info)
        return whole(info.queued_at + min(backoff.seconds(count), longest)) if count else NEVER

    return end


def _attempts(info: QueuedPodInfo) -> int:
    return info.attempts


def _failures(info: QueuedPodInfo) -> int:
    return info.errors or info.rejections

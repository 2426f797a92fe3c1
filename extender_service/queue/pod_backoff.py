"""How long a pod waits after a failed attempt: twice as long each time, up to a maximum (calculateBackoffDuration)."""

from typing import NamedTuple

from extender_service.queue.queued_pod import QueuedPodInfo


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
        """Return when the pod may be tried again, in seconds of the queue's clock."""
        return info.queued_at + self.seconds(info.attempts)


DEFAULT_BACKOFF = PodBackoff(initial_seconds=1.0, maximum_seconds=10.0)

"""What the scheduler counts of its attempts, under kube-scheduler's names (pkg/scheduler/metrics)."""

from collections.abc import Callable
from typing import Final, Protocol

from extender_service.queue.queued_pod import QueuedPodInfo
from extender_service.scheduling.decision import Decision


class AttemptMetrics(Protocol):
    """Receives what happens to a pod that was popped: `begun`, then `decided`, then `scheduled` or `failed`.

    If the pod goes while extenders are asked, `abandoned` ends the attempt.
    """

    def begun(self, info: QueuedPodInfo) -> None:
        """Note that an attempt begins."""

    def judged(self, decision: Decision) -> None:
        """Note a decision, with its scores if it has any. There may be several in an attempt."""

    def scored(self, decision: Decision) -> None:
        """Note that a decision was scored that had been noted without scores."""

    def tried_victims(self, decision: Decision) -> None:
        """Note that PostFilter ran for a decision without a feasible node, also if it failed."""

    def decided(self, info: QueuedPodInfo) -> None:
        """Note that the nodes were judged."""

    def preempted(self, victims: int) -> None:
        """Note that so many victims were deleted for a pod."""

    def preempting(self) -> Callable[[str], None]:
        """Note that victims are evicted in the background; call what it returns at the end: success or error."""

    def scheduled(self, info: QueuedPodInfo) -> None:
        """Note that the pod is bound."""

    def abandoned(self, info: QueuedPodInfo) -> None:
        """Note that the attempt ended as the pod is gone: it counts under no result."""

    def failed(self, info: QueuedPodInfo, *, is_unschedulable: bool) -> None:
        """Note that the attempt failed: no node is right, or else an error occurred."""


class UncountedAttempts:
    """Counts nothing."""

    def begun(self, info: QueuedPodInfo) -> None:
        """Do nothing."""

    def judged(self, decision: Decision) -> None:
        """Do nothing."""

    def scored(self, decision: Decision) -> None:
        """Do nothing."""

    def tried_victims(self, decision: Decision) -> None:
        """Do nothing."""

    def decided(self, info: QueuedPodInfo) -> None:
        """Do nothing."""

    def preempted(self, victims: int) -> None:
        """Do nothing."""

    def preempting(self) -> Callable[[str], None]:
        """Do nothing."""
        return lambda _: None

    def scheduled(self, info: QueuedPodInfo) -> None:
        """Do nothing."""

    def abandoned(self, info: QueuedPodInfo) -> None:
        """Do nothing."""

    def failed(self, info: QueuedPodInfo, *, is_unschedulable: bool) -> None:
        """Do nothing."""


UNCOUNTED: Final = UncountedAttempts()

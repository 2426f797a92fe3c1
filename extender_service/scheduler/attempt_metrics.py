"""What the scheduler counts of its attempts, under kube-scheduler's names (pkg/scheduler/metrics)."""

from typing import Protocol

from extender_service.queue.queued_pod import QueuedPodInfo


class AttemptMetrics(Protocol):
    """Receives what happens to a pod that was popped: `begun`, then `decided`, then `scheduled` or `failed`."""

    def begun(self, info: QueuedPodInfo) -> None:
        """Note that an attempt begins."""

    def decided(self, info: QueuedPodInfo, *, ran_post_filter: bool) -> None:
        """Note that the nodes were judged, and whether PostFilter ran."""

    def preempted(self, victims: int) -> None:
        """Note that so many victims were deleted for a pod."""

    def scheduled(self, info: QueuedPodInfo) -> None:
        """Note that the pod is bound."""

    def failed(self, info: QueuedPodInfo, *, is_unschedulable: bool) -> None:
        """Note that the attempt failed: no node is right, or else an error occurred."""


class UncountedAttempts:
    """Counts nothing."""

    def begun(self, info: QueuedPodInfo) -> None:
        """Do nothing."""

    def decided(self, info: QueuedPodInfo, *, ran_post_filter: bool) -> None:
        """Do nothing."""

    def preempted(self, victims: int) -> None:
        """Do nothing."""

    def scheduled(self, info: QueuedPodInfo) -> None:
        """Do nothing."""

    def failed(self, info: QueuedPodInfo, *, is_unschedulable: bool) -> None:
        """Do nothing."""

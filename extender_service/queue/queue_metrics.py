"""What the queue counts, under kube-scheduler's names (pkg/scheduler/metrics)."""

from typing import Protocol


class QueueMetrics(Protocol):
    """Receives counts as they change. How many pods wait where is read from the queue (`pending_counts`)."""

    def incoming(self, queue: str, event: str) -> None:
        """Count a pod that an event brought to a queue (queue_incoming_pods_total)."""

    def rejected(self, plugin: str, profile: str, change: int) -> None:
        """Count one more or one fewer pod that a plugin rejected in its last attempt (unschedulable_pods)."""

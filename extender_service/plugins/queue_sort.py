"""PrioritySort: the most important pod first."""

from typing import ClassVar

from extender_service.framework.interface import QueuedPod, QueueSort


class PrioritySort(QueueSort):
    """Orders the queue by priority; among equals, the pod that has waited longest comes first."""

    name: ClassVar[str] = "PrioritySort"

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Return whether `first` runs before `second`: by priority, then by time in the queue."""
        return self.sort_key(first) < self.sort_key(second)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        """Return what orders pods as `less` does."""
        return (-queued.pod.spec.priority, queued.queued_at)

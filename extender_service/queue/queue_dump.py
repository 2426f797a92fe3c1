"""What waits in the queue, as lines for a log: where, since when, why, and until when."""

from collections.abc import Iterator

from extender_service.queue.queued_pod import QueueEntry
from extender_service.queue.scheduling_queue import SchedulingQueue

# Of each queue, so many pods are listed.
MOST_LISTED = 1000


def queue_dump(queue: SchedulingQueue, now: float) -> Iterator[str]:
    """Yield a line with the sums, then one for each pod. `now` is in seconds of the queue's clock."""
    entries = list(queue.entries())
    yield f"queue: {queue.pending_pods()[1]}"
    listed: dict[str, int] = {}
    for entry in entries:
        listed[entry.queue] = listed.get(entry.queue, 0) + 1
        if listed[entry.queue] <= MOST_LISTED:
            yield _line(entry, now)
    for name, count in listed.items():
        if count > MOST_LISTED:
            yield f"{name}: {count - MOST_LISTED} more pods"


def _line(entry: QueueEntry, now: float) -> str:
    info = entry.info
    parts = [f"{entry.queue}: {info.key}", f"{info.attempts} attempts", f"waiting for {now - info.queued_at:.0f} s"]
    rejecting = sorted(name or "no plugin" for name in info.unschedulable_plugins)
    if rejecting:
        parts.append(f"rejected by {', '.join(rejecting)}")
    if info.pending_plugins:
        parts.append(f"pending in {', '.join(sorted(info.pending_plugins))}")
    if entry.until is not None:
        parts.append(f"{max(0.0, entry.until - now):.0f} s more at most")
    return ", ".join(parts)

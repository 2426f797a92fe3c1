"""A pod in the queue or in flight, with what the queue knows of its attempts (framework.QueuedPodInfo)."""

from typing import Final, NamedTuple

from extender_service.framework.interface import QueuedPod

NO_PLUGINS: Final[frozenset[str]] = frozenset()


class QueuedPodInfo(QueuedPod, eq=False, gc=False):
    """A pod and its attempts, one object from the moment the pod enters the queue until it leaves for good.

    `key` is namespace/name. The queue has one pod of a key, whatever its UID. Times are in seconds of the queue's
    clock: `queued_at` is when the pod came, or came back from its last attempt; `first_attempt_at` is when it first
    reached the active queue. `unschedulable_plugins` and `pending_plugins` rejected the pod in its last attempt; the
    scheduler sets them before it gives the pod back. `gating_plugin` rejects it in PreEnqueue; "" if none does.
    `rejections` counts the attempts in which plugins rejected it, and `errors` those since then that failed otherwise.
    `was_flushed`: it has waited for so long that it is tried again without any event, `flushed_at` at last.
    """

    key: str
    attempts: int = 0
    rejections: int = 0
    errors: int = 0
    first_attempt_at: float | None = None
    unschedulable_plugins: frozenset[str] = NO_PLUGINS
    pending_plugins: frozenset[str] = NO_PLUGINS
    gating_plugin: str = ""
    was_flushed: bool = False
    flushed_at: float | None = None

    @property
    def gated(self) -> bool:
        """Whether PreEnqueue rejects the pod."""
        return bool(self.gating_plugin)


class QueueEntry(NamedTuple):
    """A pod that waits: in which queue, and until when at the latest, in seconds of the queue's clock.

    `until` is None where no time ends the wait: an active pod waits for its turn, a gated one for a change of its own.
    """

    queue: str
    info: QueuedPodInfo
    until: float | None

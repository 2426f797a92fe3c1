"""What holds of pods that wait for their turn, or for the end of their backoff."""

from typing import Final

from extender_service.queue.waiting_queues import ACTIVE, BACKOFF
from tests.worlds.invariants.insides import SchedulerInsides
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.process import Process
from tests.worlds.waits.parties import is_held_up, only_leader

_SECONDS_BETWEEN_LOOKS: Final = 1.0
# The queue looks each second for pods whose backoff is over. So at more looks than these, none of them may be there.
_MOST_LOOKS: Final = 3
# An attempt asks several extenders, each several times, and may wait for each answer.
_MOST_SECONDS: Final = 30.0
_SETTLES_SECONDS: Final = 60.0


class QueueMovesOn:
    """In the queue of the leader, no pod backs off for longer than 2 s after the end of its backoff. And without
    faults, or once they have been over for a minute, an attempt begins within 30 s where pods are active.

    A look counts for nothing at which the leader is frozen, or computes, or has not read the cluster yet.
    """

    name = "queue moves on"

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._late: dict[str, int] = {}
        self._attempts: tuple[SchedulerInsides, int] | None = None
        self._idle_since = 0.0
        observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def _look(self) -> None:
        self._observed.world.timeline.call_later(_SECONDS_BETWEEN_LOOKS, self._look)
        found = only_leader(self._observed)
        if found is None or not found[1].has_synced or is_held_up(found[0], self._observed.now):
            self._late.clear()
            self._attempts = None
            return
        self._look_at_backoff(*found)
        self._look_at_active(found[1])

    def _look_at_backoff(self, replica: Process, leader: SchedulerInsides) -> None:
        now = replica.clocks.monotonic()
        over = [each for each in leader.queue.entries() if each.queue == BACKOFF and (each.until or 0.0) < now]
        self._late = {each.info.key: self._late.get(each.info.key, 0) + 1 for each in over}
        for key, looks in self._late.items():
            if looks == _MOST_LOOKS + 1:
                self._observed.violated(self, f"pod {key} backs off, though its backoff has been over for some seconds")

    def _look_at_active(self, leader: SchedulerInsides) -> None:
        now, attempts = self._observed.now, (leader, leader.queue.scheduling_cycle)
        calm_from = self._observed.calm_from
        is_calm = calm_from == 0.0 or now > calm_from + _SETTLES_SECONDS
        active = [entry.info.key for entry in leader.queue.entries() if entry.queue == ACTIVE]
        if attempts != self._attempts or not active or not is_calm:
            self._attempts, self._idle_since = attempts, now
        elif now - self._idle_since > _MOST_SECONDS:
            self._idle_since = float("inf")  # it is reported once
            text = f"pod {active[0]} is active, though no attempt has begun for {_MOST_SECONDS:g} s"
            self._observed.violated(self, text)

    def at_end(self) -> None:
        """All was looked at as time went on."""

"""Who makes pods wait: the replica that leads."""

from tests.worlds.invariants.insides import SchedulerInsides, scheduler_insides
from tests.worlds.invariants.observed import Observed
from tests.worlds.simulation.process import Process

# A program that computes for longer than that was stalled by a fault.
_COMPUTES_SECONDS = 0.01


def only_leader(observed: Observed) -> tuple[Process, SchedulerInsides] | None:
    """Return the only replica that leads, if there is one. After SIGTERM, it does not, though it keeps the lease."""
    leading = [
        (replica, insides)
        for replica in observed.replicas
        if (insides := scheduler_insides(replica)) is not None and _leads(insides)
    ]
    return leading[0] if len(leading) == 1 else None


def is_held_up(process: Process, now: float) -> bool:
    """Return whether a process that runs is frozen, asleep or stalled."""
    return bool(process.loop.stops) or process.loop._busy_until > now + _COMPUTES_SECONDS


def _leads(insides: SchedulerInsides) -> bool:
    is_ending = insides.queue._closed
    return insides.is_leading and not is_ending and (insides.elector is None or insides.elector.problem() is None)

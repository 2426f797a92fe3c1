"""How long plugins may take in one attempt of `schedule`: the lease must be renewed in time, and the watchdog waits."""

import math

from extender_service.command.start_error import StartError
from extender_service.config.default_decision_time import DEFAULT_DECISION_SECONDS
from extender_service.config.types import LeaderElectionConfiguration


def decision_seconds(given: float | None, election: LeaderElectionConfiguration, watchdog_seconds: float) -> float:
    """Return how long plugins may take in one attempt: as long as `given`, or else so that the lease can be renewed.

    A renewal that is due, retryPeriod after the one before, waits for the attempt; it must be answered before
    renewDeadline is over. Where nothing is given, half of the watchdog's time is the most; for a watchdog of 0 s, there
    is none. Raises StartError if `given` leaves no time for that, or the watchdog ends the process before it is over.
    """
    if given is not None and 0 < watchdog_seconds <= given:
        raise StartError(
            f"--decision-timeout: {given:g}s must be less than --watchdog-timeout ({watchdog_seconds:g}s), which would "
            "end the process first"
        )
    default = min(DEFAULT_DECISION_SECONDS, watchdog_seconds / 2 or math.inf)
    if not election.leader_elect:
        return default if given is None else given
    left_seconds = election.renew_deadline.seconds - election.retry_period.seconds
    if given is None:
        return min(default, left_seconds / 2)
    if given >= left_seconds:
        raise StartError(
            f"--decision-timeout: {given:g}s must be less than {left_seconds:g}s, leaderElection's renewDeadline minus "
            "retryPeriod: while plugins run, the leader does not renew its lease"
        )
    return given

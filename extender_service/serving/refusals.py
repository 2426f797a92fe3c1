"""Connections that were refused before their first request, or closed in the middle of one, and refused requests."""

import logging
import time
from typing import Literal, get_args

from extender_service.seams import Clock

log = logging.getLogger(__name__)

# Clients that are refused must not be able to fill the log.
_SECONDS_BETWEEN_WARNINGS = 1.0

RefusalReason = Literal[
    "certificate", "name", "protocol", "malformed", "header", "origin", "host", "slow", "crowd", "caller", "review"
]
# These refuse a request; the connection stays.
_OF_REQUESTS = ("caller", "review")


class Refusals:
    """Counts refusals by reason, and logs them.

    Reasons in the TLS handshake: `certificate` (none, expired, of another authority), `name` (not allowed), `protocol`
    (all else: plain HTTP, an old version, a client that does not trust our certificate). Later: `malformed` (no HTTP),
    `header` (too large), `origin` and `host` (see BrowserGuard), `slow` (a request does not arrive in time, or the
    caller does not read its answer), `crowd` (more connections than are allowed). Of `schedule` alone: `caller` (not
    authenticated), `review` (the API server does not say what a caller may do).
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.counts: dict[str, int] = dict.fromkeys(get_args(RefusalReason), 0)
        self._clock = clock
        self._quiet_until = dict.fromkeys(self.counts, clock())
        self._left_out = dict.fromkeys(self.counts, 0)

    def add(self, reason: RefusalReason, problem: str) -> None:
        """Count a refusal. Each reason is logged once a second at most, with the number of refusals left out."""
        self.counts[reason] += 1
        now = self._clock()
        if now < self._quiet_until[reason]:
            self._left_out[reason] += 1
            return
        extra = {"reason": reason, "not_logged_before": self._left_out[reason]}
        log.warning("refused a %s: %s", "request" if reason in _OF_REQUESTS else "connection", problem, extra=extra)
        self._quiet_until[reason] = now + _SECONDS_BETWEEN_WARNINGS
        self._left_out[reason] = 0

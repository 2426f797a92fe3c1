"""How long attempts may keep the event loop from all else: the watch, bindings, probes, and the renewal of the lease.

kube-scheduler has threads for these, and sets its plugins no limit. Here all of them wait while plugins run. So an
attempt has a deadline, which preemption shares, since the event loop is blocked through both. A long attempt is
followed by a rest: a renewal of the lease, or a new TLS connection, takes several turns of the event loop, and gets one
between two attempts.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from extender_service.seams import Clock

# An attempt that takes this share of the limit is long, or so many seconds. Its rest takes a share of its time, at most
# as long as the API server needs to answer a renewal.
_LONG_SHARE: Final = 1 / 8
_LONG_SECONDS: Final = 0.5
_REST_SHARE: Final = 1 / 4
_MOST_REST_SECONDS: Final = 1.0


class TimeLimit:
    """The limit on what plugins take in one attempt: `seconds` of `clock`, which is that of the profiles.

    Once the `deadline` of the current attempt is over, no further plugin is called.
    """

    def __init__(self, clock: Clock, seconds: float = math.inf) -> None:
        self.deadline = math.inf
        self._clock = clock
        self._seconds = seconds
        # Without a limit, nothing else waits for attempts.
        self._long_seconds = math.inf if seconds == math.inf else min(seconds * _LONG_SHARE, _LONG_SECONDS)
        self._began_at = math.inf

    def begin(self) -> None:
        """Let the time of an attempt begin."""
        self._began_at = now = self._clock()
        self.deadline = now + self._seconds

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Leave out the time of the context, in which extenders are asked: the event loop is free meanwhile."""
        left_at = self._clock()
        try:
            yield
        finally:
            seconds = self._clock() - left_at
            self._began_at += seconds
            self.deadline += seconds

    def rest_seconds(self) -> float:
        """Return for how long the event loop is to be free after the attempt. The next call is about another one."""
        taken_seconds = self._clock() - self._began_at
        self._began_at = math.inf
        return 0.0 if taken_seconds < self._long_seconds else min(taken_seconds * _REST_SHARE, _MOST_REST_SECONDS)

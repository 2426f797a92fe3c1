"""Counts the requests that were sent to API servers, for metrics (client-go's tools/metrics)."""

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import Final

# The upper bounds of client-go's buckets (component-base/metrics/prometheus/restclient).
BOUNDS_SECONDS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
# Stands for the status where no answer came.
UNANSWERED: Final = 0


class Durations:
    """How long requests took.

    `counts` has how many took up to each of BOUNDS_SECONDS and longer than the one before, and last how many took
    longer than all of them. `total_seconds` is the time of all together.
    """

    __slots__ = ("counts", "total_seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_SECONDS) + 1)
        self.total_seconds = 0.0


class HostRequests:
    """What was sent to one host.

    `answers` has the number of requests by method and by the status of the answer. `durations` has, by method, the
    times from the beginning of a request to its whole answer, or its failure; watches do not count there.
    """

    __slots__ = ("answers", "durations")

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, int]] = Counter()
        self.durations: defaultdict[str, Durations] = defaultdict(Durations)

    def took(self, method: str, seconds: float) -> None:
        """Note how long a request took."""
        durations = self.durations[method]
        durations.counts[bisect_left(BOUNDS_SECONDS, seconds)] += 1
        durations.total_seconds += seconds


class SentRequests:
    """What the clients that share this have sent, by host."""

    def __init__(self) -> None:
        self.hosts: dict[str, HostRequests] = {}

    def to(self, host: str) -> HostRequests:
        """Return the counts of a host, which a client keeps up to date."""
        return self.hosts.setdefault(host, HostRequests())

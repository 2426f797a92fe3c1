"""Priority and fairness of one priority level: seats, a queue, and 429 for what finds neither."""

import heapq

from tests.worlds.api_server.messages import Response

# The text is no metav1.Status: the filter answers before any handler (apiserver's priority-and-fairness filter).
REFUSED = Response(
    429,
    b"Too many requests, please try again later.\n",
    {"content-type": "text/plain; charset=utf-8", "retry-after": "1"},
)


class Fairness:
    """Requests that take seats: at most `seats` at a time, each for `seat_seconds`; `queue_length` more wait."""

    def __init__(self, seats: int, seat_seconds: float, queue_length: int) -> None:
        self._seats = seats
        self._seat_seconds = seat_seconds
        self._queue_length = queue_length
        self._taken_until: list[float] = []

    def take_seat(self, now: float) -> float | None:
        """Return how many seconds a request waits for its seat; None if it is refused."""
        while self._taken_until and self._taken_until[0] <= now:
            heapq.heappop(self._taken_until)
        if len(self._taken_until) < self._seats:
            heapq.heappush(self._taken_until, now + self._seat_seconds)
            return 0.0
        if len(self._taken_until) >= self._seats + self._queue_length:
            return None
        # The seats of those that wait are taken from when one becomes free.
        free_at = sorted(self._taken_until)[len(self._taken_until) - self._seats]
        heapq.heappush(self._taken_until, free_at + self._seat_seconds)
        return free_at - now

"""Metrics as they were a moment ago, for those who scrape too often.

Metrics are encoded in the event loop, which takes 10 to 20 ms. Any caller that reaches the port may ask for them, over
a hundred connections at once. So encoding must not take all of the loop's time.
"""

from collections.abc import Callable
from dataclasses import dataclass

from extender_service.seams import Clock

# The share of time that encoding may take in each format, and the most seconds that may be saved up.
SHARE = 0.05
SAVED_SECONDS = 0.25
# An answer is no older, however long its encoding took.
MOST_AGE_SECONDS = 1.0

OPENMETRICS_TYPE = "application/openmetrics-text"


def accepted_type(accept: str) -> str:
    """Return the media type for a header `Accept`: OpenMetrics where the header has it, else text."""
    # Not the library's choose_encoder: it fails on versions that are no numbers.
    return OPENMETRICS_TYPE if OPENMETRICS_TYPE in accept else "text/plain"


class RecentExposition:
    """Answers scrapes like `encode`, or with its last answer while encoding takes too much of the time.

    Prometheus, which asks every few seconds, gets all values as they are. `encode` gets a media type as `accept`.
    """

    def __init__(self, encode: Callable[[str], tuple[bytes, str]], clock: Clock) -> None:
        self._encode = encode
        self._clock = clock
        self._latest: dict[str, _Latest] = {}

    def __call__(self, accept: str) -> tuple[bytes, str]:
        """Return metrics in the format that `accept` asks for, and the content type."""
        media_type = accepted_type(accept)
        now = self._clock()
        latest = self._latest.get(media_type)
        left_seconds = SAVED_SECONDS
        if latest is not None:
            left_seconds = min(SAVED_SECONDS, latest.left_seconds + SHARE * (now - latest.at))
            if left_seconds < 0:
                return latest.answer
        answer = self._encode(media_type)
        at = self._clock()
        left_seconds = max(left_seconds - (at - now), -SHARE * MOST_AGE_SECONDS)
        self._latest[media_type] = _Latest(answer, at, left_seconds)
        return answer


@dataclass(frozen=True)
class _Latest:
    """An answer, when it was made, and the seconds for encoding that were left then; below 0 if too many were used."""

    answer: tuple[bytes, str]
    at: float
    left_seconds: float

"""Times as the API server writes them."""

from datetime import UTC, datetime

from extender_service.caches import cached


def rfc3339(seconds: float) -> str:
    """Format seconds since 1970 as metav1.Time: RFC 3339 in UTC, whole seconds."""
    return f"{_second(int(seconds // 1))}Z"


def micro_time(nanoseconds: int) -> str:
    """Format nanoseconds since 1970 as metav1.MicroTime: RFC 3339 in UTC, with microseconds."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{_second(seconds)}.{rest // 1000:06}Z"


@cached("times of writes", most_entries=16, most_entry_bytes=500, most_size=None)
def _second(seconds: int) -> str:
    # Cached: hundreds of pods are bound in one second. Not `strftime`, which takes three times as long.
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]

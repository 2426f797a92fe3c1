"""Times as the API server writes them."""

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """Format seconds since 1970 as metav1.Time: RFC 3339 in UTC, whole seconds."""
    # Not `strftime`, which takes three times as long.
    return f"{datetime.fromtimestamp(int(seconds // 1), UTC).isoformat()[:19]}Z"


def micro_time(nanoseconds: int) -> str:
    """Format nanoseconds since 1970 as metav1.MicroTime: RFC 3339 in UTC, with microseconds."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{rfc3339(seconds)[:-1]}.{rest // 1000:06}Z"

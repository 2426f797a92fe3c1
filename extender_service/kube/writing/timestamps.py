"""Times as the API server writes them."""

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """Format seconds since 1970 as metav1.Time: RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(nanoseconds: int) -> str:
    """Format nanoseconds since 1970 as metav1.MicroTime: RFC 3339 in UTC, with microseconds."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""Times as they stand in objects: metav1.Time and metav1.MicroTime, of whole seconds in UTC."""

from datetime import UTC, datetime
from functools import lru_cache


def rfc3339(seconds: float) -> str:
    """Return seconds since 1970 as metav1.Time."""
    return _of_whole_second(int(seconds))


def micro_time(seconds: float) -> str:
    """Return seconds since 1970 as metav1.MicroTime."""
    return rfc3339(seconds).replace("Z", ".000000Z")


@lru_cache(maxsize=256)  # many objects change within the same second
def _of_whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().removesuffix("+00:00") + "Z"


def parse(text: str) -> float:
    """Return metav1.Time as seconds since 1970."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()

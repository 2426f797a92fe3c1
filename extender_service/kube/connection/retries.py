"""Repeats a request that may get through in a moment, as client-go's retry.OnError does with its DefaultBackoff."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from extender_service.kube.api_errors import ApiError, KubeError, RefusedError
from extender_service.seams import Sleep

T = TypeVar("T")

# How often a request is made, and the first wait, which grows fivefold.
_TRIES: Final = 4
_FIRST_WAIT_SECONDS: Final = 0.01
_GROWTH: Final = 5.0
# Reasons that an API server gives with status 500, and that say more than the status: the client waits as it asks.
_OTHER_REASONS: Final = ("ServerTimeout", "StoreReadError")


async def with_retries(
    request: Callable[[], Awaitable[T]], is_worth_retrying: Callable[[KubeError], bool], sleep: Sleep
) -> T:
    """Make a request, at most four times within 310 ms. Raises the KubeError of the last one."""
    tries_left, wait_seconds = _TRIES, _FIRST_WAIT_SECONDS
    while True:
        tries_left -= 1
        try:
            return await request()
        except KubeError as error:
            if not tries_left or not is_worth_retrying(error):
                raise
        await sleep(wait_seconds)
        wait_seconds *= _GROWTH


def is_transient(error: KubeError) -> bool:
    """Return whether the API server, or what is before it, is in trouble for a moment (scheduler/util.Retriable)."""
    if isinstance(error, ApiError):
        has_status = error.status_code in (500, 503) and error.reason not in _OTHER_REASONS
        return has_status or error.reason in ("InternalError", "ServiceUnavailable")
    return isinstance(error, RefusedError)

"""Waiting for something to become true, with a deadline that fails the test."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, timeout_seconds: float = 30.0, every_seconds: float = 0.05) -> T:
    """Call `condition` until it returns a true value and return that.

    Raises TimeoutError with `what` was waited for and the last value. What `condition` raises goes through.
    """
    deadline = time.monotonic() + timeout_seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout_seconds} s for {what}; the last value was {value!r}")
        time.sleep(every_seconds)
    return value

"""Finds code of the product that takes real time, real randomness or a real thread from the system."""

import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from extender_service.seams import RANDOM

_SYSTEM: Final = {
    time.clock_gettime,
    time.clock_gettime_ns,
    time.localtime,
    time.monotonic,
    time.monotonic_ns,
    time.perf_counter,
    time.perf_counter_ns,
    time.process_time,
    time.sleep,
    time.thread_time,
    time.time,
    time.time_ns,
    os.getpid,
    os.urandom,
    threading.get_ident,
}
# Methods of the process's own random sources, and datetime's readings of the time.
_RANDOM_SOURCES: Final = (RANDOM, random._inst)
_DATETIME: Final = ("now", "utcnow", "today")
_PRODUCT: Final = "extender_service"


@contextmanager
def watched_calls() -> Iterator[Counter[str]]:
    """Count the product's calls to the system, by function and place, until the context ends.

    Also of what the product was given, such as a clock: its caller counts. Calls of libraries do not, which log and
    count for no one to read here.
    """
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and (name := _name(function)) and frame.f_globals["__name__"].startswith(_PRODUCT):
            found[f"{name} in {frame.f_globals['__name__']}:{frame.f_lineno}"] += 1

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


def _name(function: Any) -> str:
    """Return the name of a function of the system; empty for any other."""
    owner = getattr(function, "__self__", None)
    if any(owner is source for source in _RANDOM_SOURCES):
        return f"random.{function.__name__}"
    if isinstance(owner, type) and owner.__module__ == "datetime" and function.__name__ in _DATETIME:
        return f"datetime.{function.__name__}"
    try:
        return function.__name__ if function in _SYSTEM else ""
    except TypeError:  # it cannot be hashed
        return ""

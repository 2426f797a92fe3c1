"""Finds code of the product that takes time, chance, files, sockets, threads or processes from the system itself."""

import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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
    open,
    os.getpid,
    os.open,
    os.urandom,
    socket.gethostname,
    threading.get_ident,
}
# The same, written in Python. Path.read_text is not among them: programs read their configuration with that.
_PYTHON: Final = (
    Path.open,
    Path.write_bytes,
    Path.write_text,
    socket.create_connection,
    socket.create_server,
    socket.socket.__init__,
    subprocess.Popen.__init__,
    subprocess.run,
    threading.Thread.start,
)
# By identity: hashing a code object takes long.
_PYTHON_CODE: Final = {id(each.__code__) for each in _PYTHON}
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
        caller: FrameType | None = frame
        name = _name(function) if event == "c_call" else ""
        if event == "call" and id(frame.f_code) in _PYTHON_CODE:
            caller, name = frame.f_back, frame.f_code.co_qualname
        if name and caller is not None and caller.f_globals["__name__"].startswith(_PRODUCT):
            found[f"{name} in {caller.f_globals['__name__']}:{caller.f_lineno}"] += 1

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

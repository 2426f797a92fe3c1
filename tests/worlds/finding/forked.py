"""Work in forked processes, so many at once, each within bounds of real time and of memory.

A process that is forked for one piece of work gives back all its memory at the end, and has nothing of the one before.
"""

import gc
import os
import resource
import selectors
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

_T = TypeVar("_T")

_MIB = 1024 * 1024
# How often the caller is told that time passes.
_TICK_SECONDS = 0.2
# What a child writes before its answer: whether that is the answer, or the traceback of an error.
_ANSWERED, _FAILED = b"+", b"-"


@dataclass(frozen=True)
class Limits:
    """`jobs` processes at once; each may take so much real time, and so much memory for its data."""

    jobs: int
    seconds: float
    memory_bytes: int = 4096 * _MIB


@dataclass(frozen=True)
class Ended(Generic[_T]):
    """What came of a task: its answer, or why there is none. `peak_bytes` is the most memory of its process."""

    task: _T
    answer: bytes | None
    why: str
    peak_bytes: int


@dataclass
class _Child(Generic[_T]):
    task: _T
    pid: int
    ends_at: float
    written: bytes = b""
    was_too_slow: bool = False


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def forked(
    tasks: Iterable[_T], work: Callable[[_T], bytes], limits: Limits, tick: Callable[[], None] = lambda: None
) -> Iterator[Ended[_T]]:
    """Do each task in a process of its own; yield what came of them, in the order in which they end.

    `tasks` is asked for the next one when a process is free. `tick` is called several times a second. A process that
    takes too long is killed, and so is each that runs when the caller stops early.
    """
    # In each process, looking for garbage would otherwise copy the pages of all that was imported.
    gc.collect()
    gc.freeze()
    waiting = iter(tasks)
    children: dict[int, _Child[_T]] = {}
    with selectors.DefaultSelector() as selector:
        try:
            while True:
                while len(children) < limits.jobs and (task := next(waiting, None)) is not None:
                    reads = _begin(task, work, limits, children)
                    selector.register(reads, selectors.EVENT_READ)
                if not children:
                    return
                for key, _ in selector.select(_TICK_SECONDS):
                    if read := os.read(key.fd, _MIB):
                        children[key.fd].written += read
                        continue
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    yield _end(children.pop(key.fd))
                tick()
                _kill_the_slow(children.values())
        finally:
            for child in children.values():
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)


def _begin(task: _T, work: Callable[[_T], bytes], limits: Limits, children: dict[int, _Child[_T]]) -> int:
    """Begin a process; return where it writes."""
    sys.stdout.flush()
    sys.stderr.flush()
    reads, writes = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writes)
        children[reads] = _Child(task, pid, time.monotonic() + limits.seconds)
        return reads
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (limits.memory_bytes, limits.memory_bytes))
        try:
            answer = _ANSWERED + work(task)
        except BaseException:
            answer = _FAILED + traceback.format_exc().encode()
        with os.fdopen(writes, "wb") as file:
            file.write(answer)
        sys.stdout.flush()
        sys.stderr.flush()
        status = 0
    finally:
        os._exit(status)


def _end(child: _Child[_T]) -> Ended[_T]:
    _, status, usage = os.wait4(child.pid, 0)
    peak_bytes = usage.ru_maxrss * 1024
    if child.written[:1] == _ANSWERED and status == 0:
        return Ended(child.task, child.written[1:], "", peak_bytes)
    if child.was_too_slow:
        why = "it did not end in time, and was killed"
    elif child.written[:1] == _FAILED:
        why = child.written[1:].decode(errors="replace").strip()
    else:
        why = f"its process ended with {os.waitstatus_to_exitcode(status)}"
    return Ended(child.task, None, why, peak_bytes)


def _kill_the_slow(children: Iterable[_Child[_T]]) -> None:
    now = time.monotonic()
    for child in children:
        if now > child.ends_at and not child.was_too_slow:
            child.was_too_slow = True
            os.kill(child.pid, signal.SIGKILL)

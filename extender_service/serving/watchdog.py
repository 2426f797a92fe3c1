"""Ends the process where code never gives the event loop back, so that whoever runs it starts it again.

A deadline is looked at between plugins; a plugin that never returns would hold up all calls and all watches for good.
"""

import asyncio
import faulthandler
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

# What a process that was stuck ends with (EX_SOFTWARE in sysexits.h).
EXIT_STUCK = 70
# How often the thread looks for a sign of life before it gives up. Each look takes its time anew: a process that was
# suspended, or a machine that slept, has not been stuck meanwhile.
_LOOKS = 10
# The signal is for when the thread cannot run: late enough for the thread to be first wherever it can, also where each
# of its looks has to wait for the interpreter.
_SIGNAL_AFTER_LIMITS = 2
# How long it may take to say so; the event loop may be stuck in writing to the same log.
_LAST_WORDS_SECONDS = 5.0
_STANDARD_ERROR = 2


@contextmanager
def watchdog(limit_seconds: float, end: Callable[[int], None] = os._exit) -> Iterator[None]:
    """End the process, with the stack of this thread in the log, once its event loop was stuck for so long.

    The exit status is then EXIT_STUCK; or SIGPROF, with the stack on standard error, where code keeps other threads
    from running, as regular expressions do, and has taken twice as much processor time. A limit of 0 is none.
    """
    if not limit_seconds:
        yield
        return
    heart = _Heart(limit_seconds / _LOOKS / 2, limit_seconds * _SIGNAL_AFTER_LIMITS)
    stop = threading.Event()
    arguments = (heart, limit_seconds, threading.get_ident(), stop, end)
    threading.Thread(target=_watch, args=arguments, name="watchdog", daemon=True).start()
    faulthandler.register(signal.SIGPROF, file=_STANDARD_ERROR, chain=True)
    heart.beat()
    try:
        yield
    finally:
        stop.set()
        heart.stop()
        faulthandler.unregister(signal.SIGPROF)


class _Heart:
    """Beats for as long as the event loop turns."""

    def __init__(self, seconds: float, signal_seconds: float) -> None:
        self.beats = 0
        self._seconds = seconds
        self._signal_seconds = signal_seconds
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.TimerHandle | None = None

    def beat(self) -> None:
        self.beats += 1
        signal.setitimer(signal.ITIMER_PROF, self._signal_seconds)
        self._next = self._loop.call_later(self._seconds, self.beat)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        if self._next is not None:
            self._next.cancel()


def _watch(heart: _Heart, limit_seconds: float, thread: int, stop: threading.Event, end: Callable[[int], None]) -> None:
    seen, looks_without = heart.beats, 0
    while not stop.wait(limit_seconds / _LOOKS):
        looks_without = looks_without + 1 if heart.beats == seen else 0
        seen = heart.beats
        if looks_without == _LOOKS:
            _give_up(limit_seconds, thread, end)
            return


def _give_up(limit_seconds: float, thread: int, end: Callable[[int], None]) -> None:
    in_any_case = threading.Timer(_LAST_WORDS_SECONDS, end, (EXIT_STUCK,))
    in_any_case.daemon = True
    in_any_case.start()
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the documented way to another thread's stack
    stack = "".join(traceback.format_stack(frame)) if frame is not None else "unknown"
    log.critical(
        "ending: nothing was answered for too long, as some code does not return (--watchdog-timeout)",
        extra={"seconds": limit_seconds, "stack": stack, "exit_status": EXIT_STUCK},
    )
    in_any_case.cancel()
    end(EXIT_STUCK)

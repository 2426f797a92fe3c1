"""Ends the process if code blocks the event loop for too long, so that the kubelet starts it again.

Deadlines are checked between plugins. A plugin that never returns would block all calls and all watches for ever, and
in `schedule` the renewal of the lease.
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

from extender_service.serving.process_end import set_signal_handler

log = logging.getLogger(__name__)

# Exit status of a process that was stuck (EX_SOFTWARE in sysexits.h).
EXIT_STUCK = 70
# How many times the thread checks for a sign of life before it gives up. Each check measures its own time: a process
# that was suspended, or a machine that slept, was not stuck meanwhile.
_LOOKS = 10
# The signal is for the case that the thread cannot run. It comes late enough for the thread to act first if it can,
# even if each of its checks has to wait for the interpreter.
_SIGNAL_AFTER_LIMITS = 2
# Seconds that the log line may take; the event loop may be stuck in writing to the same log.
_LAST_WORDS_SECONDS = 5.0
_STANDARD_ERROR = 2


@contextmanager
def watchdog(limit_seconds: float, end: Callable[[int], None] = os._exit) -> Iterator[None]:
    """End the process once its event loop has been stuck for `limit_seconds`; the stack of this thread is logged.

    The exit status is then EXIT_STUCK. Code that keeps other threads from running, as regular expressions do, is ended
    by SIGPROF after twice as much processor time, with the stack on standard error. A limit of 0 means no limit.
    """
    if not limit_seconds:
        yield
        return
    heart = _Heart(limit_seconds / _LOOKS / 2, limit_seconds * _SIGNAL_AFTER_LIMITS)
    stop = threading.Event()
    arguments = (heart, limit_seconds, threading.get_ident(), stop, end)
    threading.Thread(target=_watch, args=arguments, name="watchdog", daemon=True).start()
    set_signal_handler(signal.SIGPROF, signal.SIG_DFL)
    faulthandler.register(signal.SIGPROF, file=_STANDARD_ERROR, chain=True)
    heart.beat()
    try:
        yield
    finally:
        stop.set()
        heart.stop()
        faulthandler.unregister(signal.SIGPROF)


class _Heart:
    """Counts beats every `seconds` while the event loop runs, and postpones the signal with each."""

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
        "ending: code has kept the event loop for too long, and does not return (--watchdog-timeout)",
        extra={"seconds": limit_seconds, "stack": stack, "exit_status": EXIT_STUCK},
    )
    in_any_case.cancel()
    end(EXIT_STUCK)

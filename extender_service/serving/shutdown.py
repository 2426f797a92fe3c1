"""Graceful shutdown: after the signal the service is not ready, finishes what is under way, and ends in time."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from extender_service.seams import Clock, SetSignalHandler
from extender_service.serving.process_end import set_signal_handler

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The last fifth of the time is for undoing what did not finish, and for answers and events about it.
_FINISH_SHARE = 0.8
_ANSWER_SHARE = 0.9
# From the last phase to the end of the process: so many seconds, or what is left after this share of a short time.
_EXIT_SECONDS = 0.5
_EVENT_SHARE = 0.95


class Shutdown:
    """One budget of time for all phases of the shutdown, from the signal to the end of the process.

    For `delay_seconds` calls are answered as before, until load balancers know that this process is not ready. The
    process is to end within `grace_seconds`, which include the delay.
    """

    def __init__(
        self,
        delay_seconds: float,
        grace_seconds: float,
        clock: Clock = time.monotonic,
        set_signal_handler: SetSignalHandler = set_signal_handler,
    ) -> None:
        self._delay_seconds = delay_seconds
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._set_signal_handler = set_signal_handler
        self._told_at: float | None = None

    @contextmanager
    def signals(self, on_told: Callable[[], None]) -> Iterator[None]:
        """Handle SIGTERM and SIGINT for as long as the context lasts. A second one ends the process at once."""

        def take(_number: int, _frame: FrameType | None) -> None:
            # From now on a signal ends the process even if its code is stuck.
            for number in _SIGNALS:
                self._set_signal_handler(number, signal.SIG_DFL)
            self._told_at = self._clock()
            on_told()

        before = {number: self._set_signal_handler(number, take) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                self._set_signal_handler(number, handler)

    @property
    def is_told(self) -> bool:
        """Whether a signal has asked the process to end."""
        return self._told_at is not None

    @property
    def delay_left(self) -> float:
        """Seconds in which new calls may still arrive."""
        return self._left(self._delay_seconds)

    @property
    def work_left(self) -> float:
        """Seconds in which calls and bindings under way may finish."""
        return self._left(self._grace_seconds * _FINISH_SHARE)

    @property
    def answers_left(self) -> float:
        """Seconds in which answers about what was undone may be sent."""
        return self._left(self._grace_seconds * _ANSWER_SHARE)

    @property
    def events_left(self) -> float:
        """Seconds in which events may be written."""
        return self._left(max(self._grace_seconds - _EXIT_SECONDS, self._grace_seconds * _EVENT_SHARE))

    def _left(self, seconds: float) -> float:
        passed = 0.0 if self._told_at is None else self._clock() - self._told_at
        return max(seconds - passed, 0.0)

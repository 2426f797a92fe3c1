"""The way out: told to stop, the service is no longer ready, finishes what is under way, and is gone in time."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from extender_service.seams import Clock

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# The last fifth of the time is for undoing what did not finish, and for telling those whom it concerns.
_FINISH_SHARE = 0.8
_ANSWER_SHARE = 0.9
# What it takes from the last phase to the end of the process.
_EXIT_SECONDS = 0.5


class Shutdown:
    """One budget of time, from the signal to the end of the process, which all phases of the way out share.

    For `delay_seconds` calls are answered as ever, until whoever sends them here knows that this process is not ready.
    After `grace_seconds`, the delay among them, the process is to be gone.
    """

    def __init__(
        self,
        delay_seconds: float,
        grace_seconds: float,
        clock: Clock = time.monotonic,
    ) -> None:
        self._delay_seconds = delay_seconds
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._told_at: float | None = None

    @contextmanager
    def signals(self, on_told: Callable[[], None]) -> Iterator[None]:
        """Be told by SIGTERM and SIGINT, for as long as the context lasts; a second one ends the process at once."""

        def take(_number: int, _frame: FrameType | None) -> None:
            # From now on they are the kernel's to handle: that ends the process also where its code is stuck.
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            self._told_at = self._clock()
            on_told()

        before = {number: signal.signal(number, take) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @property
    def is_told(self) -> bool:
        """Whether the process is to end."""
        return self._told_at is not None

    @property
    def delay_left(self) -> float:
        """Seconds in which new callers are still to be expected."""
        return self._left(self._delay_seconds)

    @property
    def work_left(self) -> float:
        """Seconds in which calls and bindings under way may finish."""
        return self._left(self._grace_seconds * _FINISH_SHARE)

    @property
    def answers_left(self) -> float:
        """Seconds in which the answers about what was undone may leave."""
        return self._left(self._grace_seconds * _ANSWER_SHARE)

    @property
    def events_left(self) -> float:
        """Seconds in which events may be written."""
        return self._left(self._grace_seconds - _EXIT_SECONDS)

    def _left(self, seconds: float) -> float:
        passed = 0.0 if self._told_at is None else self._clock() - self._told_at
        return max(seconds - passed, 0.0)

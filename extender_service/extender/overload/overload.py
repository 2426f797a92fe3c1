"""Limits for the work at one time: calls, bindings that wait, and the memory for bodies."""

import asyncio
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

from extender_service.config.default_decision_time import DEFAULT_DECISION_SECONDS
from extender_service.extender.overload.body_buffer import BodyBuffer

Limit = Literal["", "body-size", "bodies-size", "requests", "bindings", "decision-time"]


@dataclass(frozen=True)
class CallLimits:
    """What one call may take, and all calls together.

    - `body_bytes`, `bodies_bytes`: of one body, and of all that are being read or decided about
    - `requests`: complete calls without an answer yet, except bindings; `bindings`: the same for bindings
    - `decision_seconds`: from the arrival of a call to its answer, except for bindings
    """

    body_bytes: int = 256 << 20
    bodies_bytes: int = 512 << 20
    requests: int = 100
    bindings: int = 10_000
    decision_seconds: float = DEFAULT_DECISION_SECONDS


class LimitError(Exception):
    """A call that would exceed a limit; `status` is the HTTP status, None for an answer in the verb's own form."""

    def __init__(self, limit: Limit, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.limit: Limit = limit
        self.status = status


class BodyShare:
    """One body's share of the memory for bodies. The body is read within the context, and kept until `release`."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._size = 0
        self._is_given_up = False
        self._task = asyncio.current_task()

    def add(self, size: int) -> None:
        """Count another piece of `size` bytes. Stops reading bodies that began earlier to make room, or raises
        LimitError."""
        self._size += size
        self._load.bodies_bytes += size
        limits = self._load.limits
        if self._size > limits.body_bytes:
            raise body_too_large(limits.body_bytes)
        while self._load.bodies_bytes > limits.bodies_bytes:
            oldest = next(iter(self._load.reading))
            oldest.give_up()
            if oldest is self:
                raise _too_many_bodies(limits.bodies_bytes)

    def give_up(self) -> None:
        """Stop reading the body, and free its share for others."""
        del self._load.reading[self]
        self.release()
        self._is_given_up = True
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    def __enter__(self) -> Self:
        self._load.reading[self] = None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._load.reading.pop(self, None)
        was_cancelled = self._is_given_up and isinstance(error, asyncio.CancelledError)
        if was_cancelled and self._task is not None and not self._task.uncancel():
            raise _too_many_bodies(self._load.limits.bodies_bytes) from error

    def release(self) -> None:
        """Free the share, as the body is not needed any more."""
        self._load.bodies_bytes -= self._size
        self._size = 0


class Load:
    """The calls and bodies in work now.

    - `tasks`: the server's set of the calls whose head has arrived
    - `in_work`: how many of them have arrived whole and have no answer yet, except bindings
    """

    def __init__(self, limits: CallLimits) -> None:
        self.limits = limits
        self.tasks: Sized = ()
        self.in_work = 0
        self.bodies_bytes = 0
        self.body_buffer = BodyBuffer()
        self.reading: dict[BodyShare, None] = {}
        self.bindings = 0

    async def require_room(self) -> None:
        """Raise LimitError if too many calls are in work to decide about this one, which counts itself, in time."""
        if len(self.tasks) > self.limits.requests:
            await asyncio.sleep(0)  # the others that have arrived count themselves, too
        if self.in_work > self.limits.requests:
            raise LimitError("requests", f"too much to do: {self.in_work} calls are in work (--max-requests)")

    @contextmanager
    def binding(self) -> Iterator[None]:
        """Count a binding for as long as the context lasts. Raises LimitError if there are too many."""
        if self.bindings >= self.limits.bindings:
            raise LimitError("bindings", f"too much to do: {self.bindings} bindings are in work (--max-bindings)")
        self.bindings += 1
        try:
            yield
        finally:
            self.bindings -= 1


def body_too_large(most: int) -> LimitError:
    """Return the error for a body of more than `most` bytes."""
    return LimitError("body-size", f"the body has more than {most} bytes (--max-body-size)", 413)


def _too_many_bodies(most: int) -> LimitError:
    return LimitError("bodies-size", f"bodies of calls take more than {most} bytes (--max-bodies-size)", 503)

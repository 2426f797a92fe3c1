"""Trying several ways to the same thing, such as the addresses of one host, without waiting long for any of them."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

# RFC 8305 recommends this delay between the addresses of a host.
_HEAD_START_SECONDS = 0.25

_Result = TypeVar("_Result")


async def first_success(
    attempts: Sequence[Callable[[], Coroutine[Any, Any, _Result]]], discard: Callable[[_Result], object]
) -> _Result:
    """Return the result of the first attempt that succeeds, out of one or more; raises the last error if all fail.

    An attempt begins once another one has failed, or after a quarter of a second. Those that are still under way in the
    end are cancelled; the result of one that succeeds nevertheless goes to `discard`.
    """
    *_, last = attempts
    if len(attempts) == 1:
        return await last()

    def drop(task: asyncio.Task[_Result]) -> None:
        if not task.cancelled() and task.exception() is None:
            discard(task.result())

    waiting = deque(attempts)
    running: set[asyncio.Task[_Result]] = set()
    try:
        while True:
            if waiting:
                running.add(asyncio.create_task(waiting.popleft()()))
            seconds = _HEAD_START_SECONDS if waiting else None
            done, _ = await asyncio.wait(running, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                running.discard(task)
                if task.exception() is None or not (waiting or running):
                    return task.result()
    finally:
        for task in running:
            task.add_done_callback(drop)
            task.cancel()

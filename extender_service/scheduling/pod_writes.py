"""Writes about pods, in the background: those about one pod in their order, those about different pods side by side.

So a slow API server delays nothing but the pods that it is slow about, and a failure that was patched never hides a
binding that came after it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from extender_service.kube.api_errors import ApiError, KubeError, UnreachableError
from extender_service.seams import Sleep

log = logging.getLogger(__name__)

# client-go's retry.DefaultBackoff: how often a write is tried, and the first wait, which grows fivefold.
_TRIES: Final = 4
_FIRST_WAIT_SECONDS: Final = 0.01
_GROWTH: Final = 5.0

Write = Callable[[], Awaitable[object]]


class PodWrites:
    """The writes that wait or are under way, by the UID of their pod.

    `on_failed` is called with the UID of a pod if its last write fails.
    """

    def __init__(self, sleep: Sleep) -> None:
        self.on_failed: Callable[[str], object] = lambda _: None
        self._sleep = sleep
        self._last: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._last)

    def __contains__(self, uid: str) -> bool:
        """Whether a write about this pod is left."""
        return uid in self._last

    def add(self, uid: str, name: str, write: Write) -> asyncio.Task[None]:
        """Write after all earlier writes about this pod. The task raises KubeError if the write failed for good.

        `name` is the pod's, for the log. The caller need not await the task.
        """
        task = asyncio.create_task(self._after(self._last.get(uid), write))
        self._last[uid] = task
        task.add_done_callback(lambda done: self._end(uid, name, done))
        return task

    async def settled(self, uid: str) -> None:
        """Wait until no write about this pod is left."""
        while (task := self._last.get(uid)) is not None:
            await asyncio.wait([task])

    async def close(self) -> None:
        """Wait until no write is left."""
        while self._last:
            await asyncio.wait(list(self._last.values()))

    async def abandon(self) -> None:
        """Cancel the writes that are left."""
        while self._last:
            await cancelled(list(self._last.values()))

    async def _after(self, before: asyncio.Task[None] | None, write: Write) -> None:
        if before is not None:
            await asyncio.wait([before])
        wait_seconds = _FIRST_WAIT_SECONDS
        for tries_left in range(_TRIES - 1, -1, -1):
            try:
                await write()
            except KubeError as error:
                if not tries_left or not _is_worth_retrying(error):
                    raise
            else:
                return
            await self._sleep(wait_seconds)
            wait_seconds *= _GROWTH

    def _end(self, uid: str, name: str, task: asyncio.Task[None]) -> None:
        is_last = self._last.get(uid) is task
        if is_last:
            del self._last[uid]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("cannot update a pod", extra={"pod": name, "error": str(error)})
            if is_last:
                self.on_failed(uid)


async def cancelled(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait for their end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _is_worth_retrying(error: KubeError) -> bool:
    """Return whether another try may succeed (scheduler/util.Retriable)."""
    if isinstance(error, ApiError):
        return error.status_code in (500, 503)
    return isinstance(error, UnreachableError)

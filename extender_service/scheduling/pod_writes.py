"""Writes about pods, in the background: those about one pod in their order, those about different pods side by side.

So a slow API server delays nothing but the pods that it is slow about, and a failure that was patched never hides a
binding that came after it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Protocol

from extender_service.config.rules import DEFAULT_RULES, Rules
from extender_service.kube.api_errors import ApiError, KubeError, UnreachableError
from extender_service.kube.connection.retries import is_transient, with_retries
from extender_service.kube.types.core import Pod, pod_name
from extender_service.kube.types.pods import pod_uid
from extender_service.seams import Sleep

log = logging.getLogger(__name__)

# Returns the resource version that the pod has then, if the API server says so.
_Write = Callable[[], Awaitable[str | None]]


class PodApi(Protocol):
    """Where pods are written. All methods raise KubeError."""

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> str:
        """Apply a strategic merge patch to a pod's status, if it has the UID that the patch names.

        Returns the pod's resource version, which is an earlier one if the patch changes nothing.
        """

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete a pod, if it has this UID."""


class PodWrites:
    """The writes that wait or are under way, by the UID of their pod.

    Each begins after all earlier writes about its pod. `on_failed` is called with the UID of a pod if its last write
    fails, `on_patched` with its UID and its resource version if that was a patch, and succeeds.
    """

    def __init__(self, api: PodApi, sleep: Sleep, rules: Rules = DEFAULT_RULES) -> None:
        self.on_failed: Callable[[str], object] = lambda _: None
        self.on_patched: Callable[[str, str], object] = lambda _, __: None
        self._api = api
        self._rules = rules
        self._sleep = sleep
        self._last: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._last)

    def __contains__(self, uid: str) -> bool:
        """Whether a write about this pod is left."""
        return uid in self._last

    def patch_status(self, pod: Pod, patch: Mapping[str, Any]) -> asyncio.Task[None]:
        """Patch a pod's status. The task raises KubeError if that failed for good; the caller need not await it."""
        metadata = pod.metadata
        write = partial(self._api.patch_pod_status, metadata.namespace, metadata.name, patch)
        return self._add(pod_uid(pod), pod_name(pod), write)

    async def delete(
        self, namespace: str, name: str, uid: str, patch: Mapping[str, Any], begin: Callable[[], object]
    ) -> bool:
        """Patch the status of a pod, which says why it goes, and delete it; `begin` is called before each of the two.

        Returns whether the pod was there. Raises KubeError if one of the writes failed for good.
        """
        is_gone = False

        async def unless_gone(write: Awaitable[object]) -> None:
            nonlocal is_gone
            try:
                await write
            except ApiError as error:
                if not error.says_gone:
                    raise
                is_gone = True

        async def mark() -> None:
            await unless_gone(self._api.patch_pod_status(namespace, name, patch))

        async def delete() -> None:
            if not is_gone:
                await unless_gone(self._api.delete_pod(namespace, name, uid))

        for write in (mark, delete):
            begin()
            await self._add(uid, f"{namespace}/{name}", write)
        return not is_gone

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

    def _add(self, uid: str, name: str, write: _Write) -> asyncio.Task[None]:
        task = asyncio.create_task(self._after(uid, self._last.get(uid), write))
        self._last[uid] = task
        task.add_done_callback(lambda done: self._end(uid, name, done))
        return task

    async def _after(self, uid: str, before: asyncio.Task[None] | None, write: _Write) -> None:
        if before is not None:
            await asyncio.wait([before])
        version = await with_retries(write, self._is_worth_retrying, self._sleep)
        if version and self._last.get(uid) is asyncio.current_task():
            self.on_patched(uid, version)

    def _is_worth_retrying(self, error: KubeError) -> bool:
        """Return whether another try may succeed: also after a lost answer, as repeating these writes does no harm."""
        if isinstance(error, ApiError) and error.status_code == 409:
            # The API server has lost against other writers five times; of a pod that is gone, it says so again.
            return self._rules.conflicts_retried and not error.says_gone
        return is_transient(error) or isinstance(error, UnreachableError)

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

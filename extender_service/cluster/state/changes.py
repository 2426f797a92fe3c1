"""What happened in the cluster, for what waits: decisions for room, bindings for their volumes.

A decision waits for kinds of changes: few do so at once, and briefly. A binding waits for changes of single objects:
thousands may do so for minutes. A change finds these by the object's key, so it costs nothing for the others.
"""

import asyncio
import enum
from collections.abc import Set as AbstractSet

from extender_service.kube.types.keys import Key


class Change(enum.Flag):
    """Kinds of change that can turn a refusal into a fit."""

    NODE_ADDED = enum.auto()
    NODE_UPDATED = enum.auto()
    NODE_REMOVED = enum.auto()
    POD_ADDED = enum.auto()
    POD_REMOVED = enum.auto()
    PENDING_POD_REMOVED = enum.auto()  # frees no room, but ends what is done for the pod
    NOMINATION_ENDED = enum.auto()  # of a node: frees the room that was kept for a pending pod
    VOLUME = enum.auto()
    CLAIM = enum.auto()
    STORAGE_CLASS = enum.auto()
    CSI_NODE = enum.auto()
    CSI_DRIVER = enum.auto()
    CSI_STORAGE_CAPACITY = enum.auto()
    VOLUME_ATTACHMENT = enum.auto()


ObjectChange = tuple[Change, Key]
"""One kind of change of one object."""


class _Waiter:
    """What waits until it is woken. Whether it was woken counts until it has resumed."""

    def __init__(self) -> None:
        self._resumed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._was_woken = False

    def wake(self) -> None:
        self._was_woken = True
        self._resume()

    async def wait(self, timeout_seconds: float) -> bool:
        """Wait, and return whether it was woken in time.

        After a return of False no wake has come: asyncio.wait_for would let the loop go on before it returns, and the
        caller would never hear of a change in between.
        """
        timer = asyncio.get_running_loop().call_later(timeout_seconds, self._resume)
        try:
            await self._resumed
        finally:
            timer.cancel()
        return self._was_woken

    def _resume(self) -> None:
        if not self._resumed.done():
            self._resumed.set_result(None)


class Changes:
    """Wakes what waits for changes; costs nothing while nothing does."""

    def __init__(self) -> None:
        self._waiting: dict[_Waiter, Change] = {}
        self._waiting_for: dict[ObjectChange, dict[_Waiter, None]] = {}

    def notify(self, change: Change, key: Key) -> None:
        """Wake what waits for this kind of change, and what waits for this change of the object with this key."""
        for waiter, wanted in self._waiting.items():
            if wanted & change:
                waiter.wake()
        if self._waiting_for:
            for waiter in self._waiting_for.get((change, key), ()):
                waiter.wake()

    async def wait(self, wanted: Change, timeout_seconds: float) -> bool:
        """Wait for one of these kinds of changes, of any object; returns whether one came in time."""
        waiter = _Waiter()
        self._waiting[waiter] = wanted
        try:
            return await waiter.wait(timeout_seconds)
        finally:
            del self._waiting[waiter]

    async def wait_for(self, wanted: AbstractSet[ObjectChange], timeout_seconds: float) -> bool:
        """Wait for one of these changes; returns whether one came in time. Each has one kind: no union of several."""
        waiter = _Waiter()
        for each in wanted:
            self._waiting_for.setdefault(each, {})[waiter] = None
        try:
            return await waiter.wait(timeout_seconds)
        finally:
            for each in wanted:
                waiting = self._waiting_for[each]
                del waiting[waiter]
                if not waiting:
                    del self._waiting_for[each]

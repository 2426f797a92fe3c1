"""What happened in the cluster, for decisions that wait for room."""

import asyncio
import enum


class Change(enum.Flag):
    """Kinds of change that can turn a refusal into a fit."""

    NODE_ADDED = enum.auto()
    NODE_UPDATED = enum.auto()
    NODE_REMOVED = enum.auto()
    POD_ADDED = enum.auto()
    POD_REMOVED = enum.auto()
    VOLUME = enum.auto()
    CLAIM = enum.auto()
    STORAGE_CLASS = enum.auto()
    CSI_NODE = enum.auto()
    CSI_DRIVER = enum.auto()
    CSI_STORAGE_CAPACITY = enum.auto()
    VOLUME_ATTACHMENT = enum.auto()

    NODE = NODE_ADDED | NODE_UPDATED
    POD = POD_ADDED | POD_REMOVED
    STORAGE = VOLUME | CLAIM | STORAGE_CLASS | CSI_NODE | CSI_DRIVER | CSI_STORAGE_CAPACITY | VOLUME_ATTACHMENT
    ANY = NODE | NODE_REMOVED | POD | STORAGE


class Changes:
    """Notifies waiting decisions of changes; costs nothing while none waits."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Change, asyncio.Future[None]]] = []

    def notify(self, change: Change) -> None:
        """Wake the decisions that wait for this kind of change."""
        for wanted, future in self._waiting:
            if wanted & change and not future.done():
                future.set_result(None)

    async def wait(self, wanted: Change, timeout_seconds: float) -> bool:
        """Wait for one of these changes; returns whether one came in time."""
        waiter = (wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            await asyncio.wait_for(waiter[1], timeout_seconds)
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(waiter)
        return True

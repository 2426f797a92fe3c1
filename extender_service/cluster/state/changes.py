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
    PENDING_POD_REMOVED = enum.auto()  # frees no room, but ends what is done for the pod
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


class _Waiter:
    """A decision that waits for `wanted` changes, until `resumed`. Whether one `came` counts until it has resumed."""

    def __init__(self, wanted: Change, resumed: asyncio.Future[None]) -> None:
        self.wanted = wanted
        self.resumed = resumed
        self.came = False

    def resume(self) -> None:
        if not self.resumed.done():
            self.resumed.set_result(None)


class Changes:
    """Notifies waiting decisions of changes; costs nothing while none waits."""

    def __init__(self) -> None:
        self._waiting: list[_Waiter] = []

    def notify(self, change: Change) -> None:
        """Wake the decisions that wait for this kind of change."""
        for waiter in self._waiting:
            if waiter.wanted & change:
                waiter.came = True
                waiter.resume()

    async def wait(self, wanted: Change, timeout_seconds: float) -> bool:
        """Wait for one of these changes; returns whether one came in time.

        After a return of False no such change has come: asyncio.wait_for would let the loop go on before it returns,
        and the decision would never hear of a change in between.
        """
        loop = asyncio.get_running_loop()
        waiter = _Waiter(wanted, loop.create_future())
        timer = loop.call_later(timeout_seconds, waiter.resume)
        self._waiting.append(waiter)
        try:
            await waiter.resumed
        finally:
            timer.cancel()
            self._waiting.remove(waiter)
        return waiter.came

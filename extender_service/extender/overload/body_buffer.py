"""Keeps the memory of a large body, to read the next one into it.

Five thousand whole nodes are 50 MB. The kernel takes as long to provide that much memory, page by page, as decoding
takes, and a kube-scheduler that sends whole nodes sends them with each call.
"""

import asyncio
import sys

# The allocator has memory for smaller bodies ready. Memory that is larger, or unused for longer, goes back to it.
_LEAST_BYTES = 1 << 20
_MOST_BYTES = 64 << 20
_KEPT_SECONDS = 5.0


class BodyBuffer:
    """The memory of the last large body, until the next one begins to arrive."""

    def __init__(self) -> None:
        self._kept: bytearray | None = bytearray()
        # The reference count of an object without other references differs between versions of Python.
        self._references_if_unused = self._references
        self._kept = None
        self._timer: asyncio.TimerHandle | None = None

    def take(self, size: int) -> bytearray:
        """Return a buffer for a body of `size` bytes, 0 if that is not known. Longer bodies extend it.

        Its present content has no meaning.
        """
        if self._kept is None or size < _LEAST_BYTES:
            return bytearray()
        # Values that were decoded from the body, or wait to be sent to a slow caller, are views of it, not copies.
        is_used = self._references > self._references_if_unused
        kept, self._kept = self._kept, None
        if is_used:
            return bytearray()
        del kept[size:]
        return kept

    def give_back(self, body: bytearray) -> None:
        """Keep the memory of a body for a while."""
        if not _LEAST_BYTES <= len(body) <= _MOST_BYTES:
            return
        self._kept = body
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._forget)

    def _forget(self) -> None:
        self._kept = None

    @property
    def _references(self) -> int:
        return sys.getrefcount(self._kept)

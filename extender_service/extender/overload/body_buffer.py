"""The memory of a large body, kept for the next one to be read into.

Five thousand whole nodes are 50 MB. The kernel takes as long to find that much memory, page by page, as it takes to
decode them, and whoever sends whole nodes sends them with each call.
"""

import asyncio
import sys

# What is smaller, the allocator has at hand; what is larger, or was not needed for longer, others should have.
_LEAST_BYTES = 1 << 20
_MOST_BYTES = 64 << 20
_KEPT_SECONDS = 5.0


class BodyRoom:
    """The last large body, until the next one begins to come."""

    def __init__(self) -> None:
        self._kept: bytearray | None = bytearray()
        # What that is for an object that nobody else has is another number in some versions of Python.
        self._references_if_unused = self._references
        self._kept = None
        self._timer: asyncio.TimerHandle | None = None

    def take(self, size: int) -> bytearray:
        """Return where to write a body of so many bytes, 0 where that is not known, from the start and beyond its end.

        What is in it until then has no meaning.
        """
        if self._kept is None or size < _LEAST_BYTES:
            return bytearray()
        # What was decoded from it, or is on its way to a slow caller, is a part of it, not a copy.
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

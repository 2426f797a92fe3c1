"""Prioritize's answer, an object for every node, written without making these objects."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.caches import LastFew

# For as many lists of names as are decoded only once, and as large ones.
_MOST_LISTS = 4
_MOST_LIST_BYTES = 12 << 20
# Of a name in a list, and of what is made of it, beside their characters.
_BYTES_A_NAME = 200


class Priorities(msgspec.Struct):
    """Nodes by name, and the score of each."""

    names: Sequence[str]
    scores: NDArray[np.int64]


class PrioritiesEncoder:
    """Writes a list of `wire.HostPriority`. What it needs of a list of names it keeps for the next call with it."""

    def __init__(self) -> None:
        self._recent: LastFew[Sequence[str], list[bytes]] = LastFew(
            "priorities of names", most_entries=_MOST_LISTS, most_entry_bytes=_MOST_LIST_BYTES
        )

    def encode(self, priorities: Priorities) -> bytes:
        """Return the JSON."""
        if not len(priorities.names):
            return b"[]"
        scores: list[int] = priorities.scores.tolist()
        endings = {score: b"%d}" % score for score in set(scores)}
        pieces = [b""] * (2 * len(scores))
        pieces[::2] = self._beginnings(priorities.names)
        pieces[1::2] = map(endings.__getitem__, scores)
        pieces[0] = b"[" + pieces[0][1:]
        return b"".join(pieces) + b"]"

    def _beginnings(self, names: Sequence[str]) -> list[bytes]:
        for of_names, beginnings, _ in self._recent.entries:
            if of_names is names:
                return beginnings
        beginnings = [b',{"Host":%b,"Score":' % msgspec.json.encode(name) for name in names]
        # The names themselves are some of what was made of them.
        self._recent.keep(names, beginnings, 2 * sum(map(len, beginnings)) + _BYTES_A_NAME * len(names))
        return beginnings

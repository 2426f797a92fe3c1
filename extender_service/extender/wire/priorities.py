"""Encodes prioritize's answer, which has an object for every node, without creating these objects."""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.caches import LastFew
from extender_service.scheduling.explanation import Grounds

# As many lists of names as the decoder keeps, and as large.
_MOST_LISTS = 4
_MOST_LIST_BYTES = 12 << 20
# Bytes that a name in a list and its JSON take, besides their characters.
_BYTES_A_NAME = 200


class Priorities(msgspec.Struct):
    """Nodes by name, and the score of each. `grounds` has what plugins contributed to it, for the log."""

    names: Sequence[str]
    scores: NDArray[np.int64]
    grounds: Grounds | None = None


class PrioritiesEncoder:
    """Encodes lists of HostPriority. It keeps the encoded names for the next call with the same list."""

    def __init__(self) -> None:
        self._recent: LastFew[Sequence[str], list[bytes]] = LastFew(
            "priorities of names", most_entries=_MOST_LISTS, most_entry_bytes=_MOST_LIST_BYTES
        )

    def encode(self, priorities: Priorities) -> bytes:
        """Return the JSON."""
        names = priorities.names
        if not len(names):
            return b"[]"
        scores: list[int] = priorities.scores.tolist()
        endings = {score: b"%d}" % score for score in set(scores)}
        known = self._known(names)
        beginnings = known or [b',{"Host":%b,"Score":' % msgspec.json.encode(name) for name in names]
        pieces = [b""] * (2 * len(scores))
        pieces[::2] = beginnings
        pieces[1::2] = map(endings.__getitem__, scores)
        pieces[0] = b"[" + pieces[0][1:]
        encoded = b"".join(pieces) + b"]"
        if known is None:
            # Twice, for the names and for the beginnings, which contain them.
            self._recent.keep(names, beginnings, 2 * len(encoded) + _BYTES_A_NAME * len(names))
        return encoded

    def _known(self, names: Sequence[str]) -> list[bytes] | None:
        for of_names, beginnings, _ in self._recent.entries:
            if of_names is names:
                return beginnings
        return None

"""Prioritize's answer, an object for every node, written without making these objects."""

from collections import deque
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

_RECENT = 4


class Priorities(msgspec.Struct):
    """Nodes by name, and the score of each."""

    names: Sequence[str]
    scores: NDArray[np.int64]


class PrioritiesEncoder:
    """Writes a list of `wire.HostPriority`. What it needs of a list of names it keeps for the next call with it."""

    def __init__(self) -> None:
        self._recent: deque[tuple[Sequence[str], list[bytes]]] = deque(maxlen=_RECENT)

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
        for of_names, beginnings in self._recent:
            if of_names is names:
                return beginnings
        beginnings = [b',{"Host":%b,"Score":' % msgspec.json.encode(name) for name in names]
        self._recent.append((names, beginnings))
        return beginnings

"""Whole nodes on their way back: the bytes that they came as leave again, without being copied.

Five thousand nodes are 50 MB. To write them into a new answer takes as long as to decide about them, most of it for the
kernel to find that much memory.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.extender.wire.bodies import Answer, Body
from extender_service.kube.types.extender_api import ExtenderFilterResult, ResultNodeList

# Of nodes that came one after the other and pass together. With more, finding them costs more than copying them.
_MOST_RUNS = 256

_encode = msgspec.json.Encoder().encode


def encode_with_nodes(
    result: ExtenderFilterResult, items: Sequence[msgspec.Raw], passing: NDArray[np.intp], body: Body
) -> Answer:
    """Encode a result whose nodes are those of a request's `items` at the indexes `passing`, in the order of both.

    `body` is what they were decoded from, and not to be changed until the answer is out.
    """
    spans = _spans(items, passing, body)
    if not spans:
        return (_encode(result),)
    # The nodes come first, so this is the bracket that opens their list.
    head, bracket, tail = _encode(msgspec.structs.replace(result, nodes=ResultNodeList([]))).partition(b"[")
    view = memoryview(body)
    pieces: list[bytes | memoryview] = [head + bracket]
    for begin, end in spans:
        pieces += (view[begin:end], b",")
    pieces[-1] = tail
    return tuple(pieces)


def _spans(items: Sequence[msgspec.Raw], passing: NDArray[np.intp], body: Body) -> list[tuple[int, int]]:
    """Where the body has nodes that pass and came one after the other; nothing if that is not worth it, or not so."""
    if not len(passing):
        return []
    gaps = np.flatnonzero(np.diff(passing) != 1)
    if len(gaps) >= _MOST_RUNS:
        return []
    first, last = passing[np.append(0, gaps + 1)].tolist(), passing[np.append(gaps, -1)].tolist()
    start = _address(body)
    spans = [
        (_address(items[one]) - start, _address(items[other]) - start + len(memoryview(items[other])))
        for one, other in zip(first, last, strict=True)
    ]
    # A list under a name that is not Go's was decoded from a copy.
    is_in_body = all(0 <= begin < end <= len(body) for begin, end in spans)
    return spans if is_in_body else []


def _address(buffer: Body | msgspec.Raw) -> int:
    address: int = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
    return address

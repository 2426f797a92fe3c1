"""Whole nodes in answers: the bytes of the request are sent back, without being copied.

Five thousand nodes are 50 MB. Copying them into a new answer takes as long as deciding about them, mostly because the
kernel has to provide that much memory.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from extender_service.extender.wire.bodies import Answer, Body
from extender_service.kube.types.extender_api import ExtenderFilterResult, ResultNodeList

# The most runs of nodes that are adjacent in the request and pass. With more, finding them costs more than copying.
_MOST_RUNS = 256

_encode = msgspec.json.Encoder().encode


def encode_with_nodes(
    result: ExtenderFilterResult, items: Sequence[msgspec.Raw], passing: NDArray[np.intp], body: Body
) -> Answer:
    """Encode a result whose nodes are those of a request's `items` at the indexes `passing`, in the order of both.

    `body` is what they were decoded from. It must not change until the answer is sent.
    """
    spans = _spans(items, passing, body)
    if not spans:
        return (_encode(result),)
    # The nodes are the first field, so this is the bracket that opens their list.
    head, bracket, tail = _encode(msgspec.structs.replace(result, nodes=ResultNodeList([]))).partition(b"[")
    view = memoryview(body)
    pieces: list[bytes | memoryview] = [head + bracket]
    for begin, end in spans:
        pieces += (view[begin:end], b",")
    pieces[-1] = tail
    return tuple(pieces)


def _spans(items: Sequence[msgspec.Raw], passing: NDArray[np.intp], body: Body) -> list[tuple[int, int]]:
    """Return the spans of the body with adjacent nodes that pass; none if there are too many, or it lacks the nodes."""
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
    # A list whose field is not spelled as in Go was decoded from a copy.
    is_in_body = all(0 <= begin < end <= len(body) for begin, end in spans)
    return spans if is_in_body else []


def _address(buffer: Body | msgspec.Raw) -> int:
    address: int = np.frombuffer(buffer, np.uint8).__array_interface__["data"][0]
    return address

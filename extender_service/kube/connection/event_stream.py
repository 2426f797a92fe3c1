"""The events of a watch, decoded from the bytes of its stream.

A watch is one JSON object a line, `{"type": "ADDED", "object": {…}}` (metav1.WatchEvent).
"""

import math
import time
from collections.abc import AsyncIterator, Callable
from typing import Final, Generic, Literal

import msgspec

from extender_service.kube.api_errors import ApiError, ApiStatus, InvalidAnswerError
from extender_service.kube.connection.slices import SLICE_SECONDS, Slices
from extender_service.kube.parsing.decoder import DecodeError, Decoder
from extender_service.kube.resources.api_resources import Frame, T

# etcd takes objects of 1.5 MiB, and the API server writes `<` as `\u003c`: 9 MiB.
_MOST_LINE_BYTES: Final = 16 << 20


class _ErrorFrame(msgspec.Struct, frozen=True, gc=False):
    type: Literal["ERROR"]
    object: ApiStatus


_error_decoder = Decoder(_ErrorFrame)


class EventStream(Generic[T]):
    """The events of one open watch.

    `current_at`: all events that arrived until then have been yielded; minus infinity before the first whole line.
    """

    def __init__(
        self, chunks: AsyncIterator[bytes], decoder: Decoder[Frame[T]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._chunks = chunks
        self._decoder = decoder
        self._clock = clock
        self.current_at = -math.inf

    async def __aiter__(self) -> AsyncIterator[Frame[T]]:
        """Yield event after event until the server ends the watch. Other tasks run while many come at once.

        The object of an event is as it is now, or as it was when it was deleted. That of a bookmark has only a resource
        version: all changes up to it have been sent. No event is an ERROR.

        Raises InvalidAnswerError for a line that is not a whole event, ApiError for an ERROR event, and what the
        source of the chunks raises.
        """
        begun: list[bytes] = []  # the pieces of a line whose end is still to come
        begun_bytes = 0
        clock = self._clock
        async for chunk in self._chunks:
            arrived_at = clock()
            first, *lines = chunk.split(b"\n")
            begun.append(first)
            begun_bytes += len(first)
            if begun_bytes > _MOST_LINE_BYTES:
                raise InvalidAnswerError(f"an event of the watch is larger than {_MOST_LINE_BYTES >> 20} MiB")
            if not lines:
                continue
            lines.insert(0, b"".join(begun))
            begun = [lines.pop()]
            begun_bytes = len(begun[0])
            slices = Slices(SLICE_SECONDS, clock)
            for line in lines:
                yield self._decode(line)
                if clock() >= slices.end:
                    await slices.rest()
            self.current_at = arrived_at
        if b"".join(begun).strip():
            raise InvalidAnswerError("the watch ended in the middle of an event")

    def _decode(self, line: bytes) -> Frame[T]:
        try:
            frame = self._decoder.decode(line)
        except DecodeError as error:
            # It may still be an error, whose status is not what the object's is.
            raise _refusal(line) or InvalidAnswerError(f"an event of the watch cannot be decoded: {error}") from error
        if frame.type == "ERROR":
            raise _refusal(line) or InvalidAnswerError("an error of the watch cannot be decoded")
        return frame


def _refusal(line: bytes) -> ApiError | None:
    """Return the error that a line reports; None if the line is something else."""
    try:
        return ApiError(_error_decoder.decode(line).object)
    except DecodeError:
        return None

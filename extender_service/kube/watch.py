"""The events of a watch, decoded from the bytes of its stream.

A watch is one JSON object a line, `{"type": "ADDED", "object": {…}}` (metav1.WatchEvent).
"""

import time
from collections.abc import AsyncIterator, Callable
from typing import Generic, Literal, NamedTuple

import msgspec

from extender_service.kube.api_errors import ApiError, InvalidAnswerError, Status
from extender_service.kube.decoding import DecodeError, Decoder
from extender_service.kube.resources import T

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class Event(NamedTuple, Generic[T]):
    """One change: the object as it is now, or as it was when it was deleted.

    The object of a bookmark has only a resource version: all changes up to it have been sent.
    """

    type: EventType
    object: T


class _Frame(msgspec.Struct, frozen=True, gc=False):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


_decode_frame = msgspec.json.Decoder(_Frame).decode
_decode_status = Decoder(Status).decode


class EventStream(Generic[T]):
    """The events of one open watch; `last_byte_at` is the clock's reading when the server was last heard of."""

    def __init__(
        self, chunks: AsyncIterator[bytes], decoder: Decoder[T], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._chunks = chunks
        self._decoder = decoder
        self._clock = clock
        self.last_byte_at = clock()

    async def __aiter__(self) -> AsyncIterator[Event[T]]:
        """Yield event after event until the server ends the watch.

        Raises InvalidAnswerError for a line that is not a whole event, ApiError for an ERROR event, and what the
        source of the chunks raises.
        """
        rest = b""
        async for chunk in self._chunks:
            self.last_byte_at = self._clock()
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()
            for line in lines:
                yield self._decode(line)
        if rest.strip():
            raise InvalidAnswerError("the watch ended in the middle of an event")

    def _decode(self, line: bytes) -> Event[T]:
        try:
            frame = _decode_frame(line)
            if frame.type == "ERROR":
                raise ApiError(_decode_status(frame.object))
            return Event(frame.type, self._decoder.decode(frame.object))
        except (msgspec.DecodeError, DecodeError) as error:
            raise InvalidAnswerError(f"an event of the watch cannot be decoded: {error}") from error

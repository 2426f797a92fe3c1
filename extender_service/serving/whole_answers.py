"""uvicorn's HTTP, except that an answer is sent in one piece.

uvicorn writes the head of an answer and its body one after the other, each at once. On loopback that wakes the caller
twice, the first time for nothing, and costs more than all the rest of a small answer.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class WholeAnswers(HttpToolsProtocol):
    """uvicorn's protocol over a transport that gathers writes until the answer is complete.

    Other bytes, and a part of an answer, are sent in the next turn of the event loop.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the gathering transport between uvicorn and the connection."""
        self._gathering = _Gathering(transport, self.loop)
        super().connection_made(self._gathering)  # type: ignore[arg-type]

    def on_response_complete(self) -> None:
        """Send the answer, which is complete now."""
        self._gathering.flush()
        super().on_response_complete()


class _Gathering:
    """A transport in front of another."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self.is_closing = transport.is_closing  # each answer asks
        self._loop = loop
        self._written: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write with what comes next, in this turn of the event loop."""
        if not self._written:
            self._loop.call_soon(self.flush)
        self._written.append(data)

    def close(self) -> None:
        """Close once all is written."""
        self.flush()
        self._transport.close()

    def flush(self) -> None:
        """Write what has been gathered."""
        if self._written:
            written, self._written = self._written, []
            # Not joined: an answer with whole nodes reaches 50 MB.
            self._transport.writelines(written)

"""What goes to the API server and what comes back, as plain values: no sockets, no threads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

Object = dict[str, Any]


class Request(msgspec.Struct, frozen=True):
    """An HTTP request. `query` holds each parameter once, decoded; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""


@dataclass(frozen=True)
class Response:
    """A whole answer. Header names are lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})

    def json(self) -> Any:
        """Return the decoded body."""
        return msgspec.json.decode(self.body)


@dataclass(frozen=True)
class Delayed:
    """An answer that comes later: call `proceed` after `seconds`, once. Nothing of the request was done before."""

    seconds: float
    proceed: Callable[[], "Answer"]


class Watch:
    """An open watch. Lines come as bytes: to `on_line` if it is set, otherwise `take` returns what has come since.

    `is_ended` says whether the server has ended it, cleanly; `on_end` is called then.
    """

    def __init__(self, close: Callable[["Watch"], None]) -> None:
        self.on_line: Callable[[bytes], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.is_ended = False
        self._close = close
        self._lines: list[bytes] = []

    def take(self) -> bytes:
        """Return what has come since the last call; empty if nothing has."""
        taken = b"".join(self._lines)
        self._lines.clear()
        return taken

    def close(self) -> None:
        """End it from the client's side."""
        self._close(self)

    def send(self, line: bytes) -> None:
        """The server's side: one event."""
        if self.on_line is None:
            self._lines.append(line)
        else:
            self.on_line(line)

    def end(self) -> None:
        """The server's side: no more events come."""
        if not self.is_ended:
            self.is_ended = True
            self._close(self)
            if self.on_end is not None:
                self.on_end()


Answer = Response | Watch | Delayed


class NotModelledError(Exception):
    """A request uses a part of the API server that this model does not have. The text names it."""

"""HTTP requests as bytes, and the answers to them."""

import json
from dataclasses import dataclass
from typing import Any, Literal, Self

Verb = Literal["filter", "prioritize", "preempt", "bind"]
VERBS: tuple[Verb, ...] = ("filter", "prioritize", "preempt", "bind")


@dataclass(frozen=True, repr=False)
class Request:
    """The bytes that are sent. `verb` is None, and the body empty, where they are not plainly a call of a verb."""

    raw: bytes
    verb: Verb | None = None
    body: bytes = b""

    @classmethod
    def call(cls, verb: Verb, body: bytes) -> Self:
        """A call of a verb, with the head that Go's client writes."""
        head = (
            f"POST /{verb} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        )
        return cls(head.encode() + body, verb, body)

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """A request from its bytes."""
        body = raw.partition(b"\r\n\r\n")[2]
        calls = [cls.call(verb, body) for verb in VERBS]
        return next((call for call in calls if call.raw == raw), cls(raw))

    def __repr__(self) -> str:
        return f"<{self.verb or 'HTTP'}, {len(self.raw)} bytes>"


@dataclass
class Answer:
    """What came back, and how long it took."""

    status: int
    body: bytes = b""
    seconds: float = 0.0

    def decoded(self) -> Any:
        """The body's JSON, read as Go reads it: nodes go back as they came, also those that are not UTF-8."""
        return json.loads(self.body.decode(errors="replace"))

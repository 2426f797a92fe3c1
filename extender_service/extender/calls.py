"""A call of a verb below the web framework: every microsecond here is one of kube-scheduler's serial loop."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import Message, Receive, Send


class HungUpError(Exception):
    """The caller was gone before its request was complete."""


class Call:
    """One HTTP request, as ASGI gives it."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive

    async def body(self) -> bytes:
        """Read the whole body. Raises HungUpError."""
        message = await self._receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            _require_request(message)
            return body
        chunks = [body]
        while message.get("more_body"):
            message = await self._receive()
            _require_request(message)
            chunks.append(message.get("body", b""))
        return b"".join(chunks)

    async def has_hung_up(self) -> bool:
        """Tell whether the caller is gone, once the body has been read."""
        # A decision keeps the event loop from reading: it takes a turn to see that the caller is gone, and one to tell.
        for _ in range(3):
            await asyncio.sleep(0)
        while True:
            message = _at_once(self._receive())
            if message is None or message["type"] == "http.disconnect":
                return message is not None


async def answer(send: Send, status: int, body: bytes) -> None:
    """Send JSON as the answer; with its length, since kube-scheduler often drops a connection after a chunked one."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _require_request(message: Message) -> None:
    if message["type"] == "http.disconnect":
        raise HungUpError("the caller hung up before its request was complete")


def _at_once(receiving: Any) -> Message | None:
    """Return what is there to receive without waiting, None if nothing is."""
    coroutine: Coroutine[Any, Any, Message] = receiving
    try:
        coroutine.send(None)
    except StopIteration as received:
        message: Message = received.value
        return message
    coroutine.close()
    return None

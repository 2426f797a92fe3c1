"""A call of a verb, below the web framework: every microsecond here delays kube-scheduler's serial loop."""

from starlette.types import Message, Receive, Scope, Send

from extender_service.extender.overload.overload import BodyShare, Load, body_too_large
from extender_service.extender.wire.bodies import Answer, Body
from extender_service.seams import Clock
from extender_service.serving.scope import ARRIVED, HUNG_UP, HungUp


class HungUpError(Exception):
    """The caller hung up before its request was complete."""


class Call:
    """One HTTP request, as ASGI gives it. The caller waits until the `deadline`, in seconds of `clock`."""

    def __init__(self, scope: Scope, receive: Receive, load: Load, clock: Clock) -> None:
        """`clock` must be the one with which the server notes when a request arrives."""
        self.clock = clock
        self.arrived: float = scope.get(ARRIVED) or clock()
        self.deadline = self.arrived + load.limits.decision_seconds
        self.load = load
        self.has_hung_up: HungUp = scope.get(HUNG_UP, _never)
        self._scope = scope
        self._receive = receive
        self._share: BodyShare | None = None
        self._room: bytearray | None = None
        self._is_in_work = False

    async def body(self) -> Body:
        """Read the whole body. Raises HungUpError, and LimitError as soon as it is too large."""
        message = await self._receive()
        body: bytes = message.get("body", b"")
        if not message.get("more_body"):
            _require_request(message)
            if len(body) > self.load.limits.body_bytes:
                raise body_too_large(self.load.limits.body_bytes)
            return body
        length = _content_length(self._scope)
        if length > self.load.limits.body_bytes:
            raise body_too_large(self.load.limits.body_bytes)
        self._share = BodyShare(self.load)
        # Not joined from a list: allocating new pages for 50 MB of pieces costs more than copying them.
        whole = self._room = self.load.body_buffer.take(length)
        with self._share as share:
            share.add(len(body))
            whole[: len(body)] = body
            written = len(body)
            while message.get("more_body"):
                message = await self._receive()
                _require_request(message)
                piece = message.get("body", b"")
                share.add(len(piece))
                whole[written : written + len(piece)] = piece
                written += len(piece)
        del whole[written:]
        return whole

    async def take_turn(self) -> None:
        """Count this call, which has arrived whole, as in work until `end`. Raises LimitError if too many are."""
        self._is_in_work = True
        self.load.in_work += 1
        await self.load.require_room()

    def end(self) -> None:
        """Release the memory of the body, which is not needed any more, and the place among the calls in work."""
        if self._is_in_work:
            self._is_in_work = False
            self.load.in_work -= 1
        if self._share is not None:
            self._share.release()
        if self._room is not None:
            self.load.body_buffer.give_back(self._room)
            self._room = None


async def answer(send: Send, status: int, body: Answer) -> None:
    """Send JSON as the answer; with its length, since kube-scheduler often drops a connection after a chunked one."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % sum(map(len, body)))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for piece in body[:-1]:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": body[-1]})


def _content_length(scope: Scope) -> int:
    """Return the body's length from the Content-Length header, which the server checks; 0 for a chunked body."""
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


def _require_request(message: Message) -> None:
    if message["type"] == "http.disconnect":
        raise HungUpError("the caller hung up before its request was complete")


def _never() -> bool:
    return False

import asyncio
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from extender_service.serving.whole_answers import WholeAnswers

HEAD = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"6")]}


async def two_parts(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send(HEAD)
    await send({"type": "http.response.body", "body": b"abc", "more_body": True})
    await send({"type": "http.response.body", "body": b"def"})


class Wire(asyncio.Transport):
    """Notes what is written to it at once, and that it was closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:  # type: ignore[override]
        self.written.append(data)

    def is_closing(self) -> bool:
        return bool(self.written and self.written[-1] == b"")

    def close(self) -> None:
        self.written.append(b"")

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def answered(request: bytes, until: Callable[[Wire], bool], app: ASGIApp = two_parts) -> Wire:
    """What an answer to a request puts on the wire, which the application has as scope["state"]["wire"]."""

    async def run() -> Wire:
        config = uvicorn.Config(app, interface="asgi3", http=WholeAnswers, lifespan="off", log_config=None)
        config.load()
        wire = Wire()
        state = uvicorn.Server(config).server_state
        protocol = WholeAnswers(config=config, server_state=state, app_state={"wire": wire})
        protocol.connection_made(wire)
        protocol.data_received(request)
        async with asyncio.timeout(5):
            while not until(wire):
                await asyncio.sleep(0)
        if protocol.timeout_keep_alive_task is not None:
            protocol.timeout_keep_alive_task.cancel()
        return wire

    return asyncio.run(run())


def test_head_and_body_leave_together() -> None:
    wire = answered(b"POST /filter HTTP/1.1\r\nHost: x\r\n\r\n", lambda wire: len(wire.written) > 0)
    [answer] = wire.written
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nabcdef")


def test_a_whole_answer_leaves_at_once() -> None:
    left: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await two_parts(scope, receive, send)
        left.extend(scope["state"]["wire"].written)

    wire = answered(b"POST /filter HTTP/1.1\r\nHost: x\r\n\r\n", lambda _: bool(left), app)
    assert left == wire.written


def test_a_connection_is_closed_after_the_answer() -> None:
    wire = answered(b"POST /filter HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", Wire.is_closing)
    answer, closed = wire.written
    assert answer.endswith(b"abcdef")
    assert closed == b""


def test_requests_on_one_connection_are_answered_in_their_order() -> None:
    request = b"POST /filter HTTP/1.1\r\nHost: x\r\n\r\n"
    wire = answered(2 * request, lambda wire: b"".join(wire.written).count(b"abcdef") == 2)
    assert b"".join(wire.written).count(b"HTTP/1.1 200 OK") == 2

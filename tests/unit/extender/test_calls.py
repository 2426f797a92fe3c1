import asyncio
from collections.abc import Sequence

import pytest
from starlette.types import Message

from extender_service.extender.calls import Call, HungUpError, answer

GONE: Message = {"type": "http.disconnect"}


def part(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


class Caller:
    """Sends messages, then nothing until it hangs up."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = list(messages)
        self.gone = asyncio.Event()

    async def receive(self) -> Message:
        if self.messages:
            return self.messages.pop(0)
        await self.gone.wait()
        return GONE


@pytest.mark.parametrize(
    "messages",
    [
        [part(b"abcd", more=False)],
        [part(b"ab", more=True), part(b"", more=True), part(b"cd", more=False)],
        [part(b"abcd", more=True), {"type": "http.request"}],
    ],
)
def test_the_body_is_read_whole(messages: list[Message]) -> None:
    assert asyncio.run(Call(Caller(messages).receive).body()) == b"abcd"


@pytest.mark.parametrize("messages", [[GONE], [part(b"ab", more=True), GONE]])
def test_a_caller_that_goes_before_it_is_done(messages: list[Message]) -> None:
    with pytest.raises(HungUpError, match="before its request was complete"):
        asyncio.run(Call(Caller(messages).receive).body())


def test_whether_the_caller_is_still_there_is_told_without_waiting_for_it() -> None:
    async def run() -> None:
        # An HTTP server may tell once more that the body has ended.
        caller = Caller([part(b"", more=False), part(b"", more=False)])
        call = Call(caller.receive)
        await call.body()
        assert not await call.has_hung_up()
        caller.gone.set()
        assert await call.has_hung_up()
        assert await call.has_hung_up()

    asyncio.run(run())


def test_the_answer_says_how_long_it_is() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(answer(send, 400, b'{"Error":"no"}'))
    start, body = sent
    assert start["status"] == 400
    assert dict(start["headers"]) == {b"content-type": b"application/json", b"content-length": b"14"}
    assert body["body"] == b'{"Error":"no"}'

import asyncio
from collections.abc import Sequence

import pytest
from starlette.types import Message

from extender_service.extender.calls import Call, HungUpError, answer
from extender_service.extender.overload.overload import CallLimits, LimitError, Load
from extender_service.serving.scope import ARRIVED, HUNG_UP
from tests.support.clock import Clock

GONE: Message = {"type": "http.disconnect"}


def part(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


class Caller:
    """Sends messages, then nothing."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = list(messages)

    async def receive(self) -> Message:
        if not self.messages:
            await asyncio.Event().wait()
        return self.messages.pop(0)


def made(caller: Caller, load: Load | None = None, length: int | None = None) -> Call:
    headers = [] if length is None else [(b"host", b"x"), (b"content-length", b"%d" % length)]
    return Call({"headers": headers}, caller.receive, load or Load(CallLimits()), Clock())


@pytest.mark.parametrize(
    "messages",
    [
        [part(b"abcd", more=False)],
        [part(b"ab", more=True), part(b"", more=True), part(b"cd", more=False)],
        [part(b"abcd", more=True), {"type": "http.request"}],
    ],
)
def test_the_body_is_read_whole(messages: list[Message]) -> None:
    assert asyncio.run(made(Caller(messages)).body()) == b"abcd"


def test_bodies_that_come_one_after_the_other_are_read_as_they_came() -> None:
    load = Load(CallLimits())

    async def read(body: bytes, pieces: int, *, says_length: bool) -> bytes:
        size = -(-len(body) // pieces)
        messages = [part(body[at : at + size], more=at + size < len(body)) for at in range(0, len(body), size)]
        call = made(Caller(messages), load, len(body) if says_length else None)
        try:
            return bytes(await call.body())
        finally:
            call.end()

    async def all_of_them() -> None:
        for number, length in enumerate((3 << 20, 2 << 20, 1 << 20, 3 << 20, 4 << 20, 5, 4 << 20)):
            body = b"%d," % number * (length // 2)
            for pieces in (1, 2, 7):
                assert await read(body, pieces, says_length=pieces != 2) == body

    asyncio.run(all_of_them())


@pytest.mark.parametrize("messages", [[GONE], [part(b"ab", more=True), GONE]])
def test_a_caller_that_goes_before_it_is_done(messages: list[Message]) -> None:
    with pytest.raises(HungUpError, match="before its request was complete"):
        asyncio.run(made(Caller(messages)).body())


def test_whether_the_caller_is_gone_is_told_by_the_server() -> None:
    is_gone = False
    call = Call({"headers": [], HUNG_UP: lambda: is_gone}, Caller([]).receive, Load(CallLimits()), Clock())
    assert not call.has_hung_up()
    is_gone = True
    assert call.has_hung_up()


def test_a_caller_of_whom_the_server_tells_nothing_is_there() -> None:
    assert not made(Caller([])).has_hung_up()


def test_the_answer_says_how_long_it_is() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(answer(send, 400, (b'{"Error":', memoryview(b'"no"'), b"}")))
    start, *pieces = sent
    assert start["status"] == 400
    assert dict(start["headers"]) == {b"content-type": b"application/json", b"content-length": b"14"}
    assert b"".join(piece["body"] for piece in pieces) == b'{"Error":"no"}'
    assert [piece.get("more_body", False) for piece in pieces] == [True, True, False]


SMALL = CallLimits(body_bytes=8, bodies_bytes=12)


def test_a_body_that_says_it_is_too_large_is_not_read() -> None:
    caller = Caller([part(b"ab", more=True), part(b"cd", more=False)])
    with pytest.raises(LimitError, match=r"^the body has more than 8 bytes \(--max-body-size\)$") as error:
        asyncio.run(made(caller, Load(SMALL), 9).body())
    assert (error.value.limit, error.value.status) == ("body-size", 413)
    assert len(caller.messages) == 1


@pytest.mark.parametrize("messages", [[part(b"a" * 9, more=False)], [part(b"a" * 3, more=True)] * 9])
def test_a_body_that_does_not_is_read_up_to_the_limit(messages: list[Message]) -> None:
    caller = Caller(messages)
    with pytest.raises(LimitError, match="the body has more than 8 bytes"):
        asyncio.run(made(caller, Load(SMALL)).body())
    assert len(caller.messages) == max(len(messages) - 3, 0)


def test_bodies_count_until_the_call_is_answered() -> None:
    async def run() -> None:
        load = Load(SMALL)
        first = made(Caller([part(b"abcd", more=True), part(b"abcd", more=False)]), load, 8)
        assert await first.body() == b"abcdabcd"
        assert (load.bodies_bytes, len(load.reading)) == (8, 0)
        with pytest.raises(LimitError, match=r"take more than 12 bytes \(--max-bodies-size\)") as error:
            await made(Caller([part(b"abc", more=True), part(b"de", more=False)]), load, 5).body()
        assert (error.value.limit, error.value.status) == ("bodies-size", 503)
        assert load.bodies_bytes == 8
        first.end()
        last = made(Caller([part(b"abc", more=True), part(b"de", more=False)]), load, 5)
        assert await last.body() == b"abcde"
        last.end()
        assert load.bodies_bytes == 0

    asyncio.run(run())


def test_a_body_that_has_been_coming_for_long_goes_for_one_that_comes_at_once() -> None:
    async def run() -> None:
        load = Load(SMALL)
        slow = asyncio.create_task(made(Caller([part(b"abcdef", more=True)]), load).body())
        slower = asyncio.create_task(made(Caller([part(b"abc", more=True)]), load).body())
        while load.bodies_bytes < 9:
            await asyncio.sleep(0)
        prompt = made(Caller([part(b"abc", more=True), part(b"de", more=False)]), load)
        assert await prompt.body() == b"abcde"
        with pytest.raises(LimitError, match="bodies of calls take more"):
            await slow
        assert (load.bodies_bytes, len(load.reading)) == (8, 1)
        slower.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slower
        assert len(load.reading) == 0

    asyncio.run(run())


def test_the_deadline_counts_from_when_the_server_saw_the_call() -> None:
    load = Load(CallLimits(decision_seconds=3))
    call = Call({"headers": [], ARRIVED: 100.0}, Caller([]).receive, load, Clock())
    assert (call.arrived, call.deadline) == (100.0, 103.0)


def test_without_such_a_server_the_deadline_counts_from_now() -> None:
    clock, load = Clock(), Load(CallLimits(decision_seconds=3))
    call = Call({"headers": []}, Caller([]).receive, load, clock)
    assert (call.arrived, call.deadline) == (clock.now, clock.now + 3)

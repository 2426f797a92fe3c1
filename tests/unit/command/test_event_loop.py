"""The ordinary end of a connection is no error in the log; all else that fails in the event loop is."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from extender_service.command.cli import parser
from extender_service.command.event_loop import log_failure, new_event_loop
from extender_service.command.schedule.schedule import schedule
from extender_service.command.schedule.schedule_options import schedule_options
from extender_service.command.serve.serve import serve
from tests.support.serve_options import serve_options

MakeLoop = Callable[[], asyncio.AbstractEventLoop]

GONE = [
    ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"),
    BrokenPipeError(errno.EPIPE, "Broken pipe"),
    TimeoutError(errno.ETIMEDOUT, "Connection timed out"),
    OSError(errno.EHOSTUNREACH, "No route to host"),
]
DEFECTS = [ValueError("a defect"), RuntimeError("a queue is closed"), KeyError("the handler is closed")]

both_loops = pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])


class Failing(asyncio.Protocol):
    """Fails where the event loop calls it; `lost` is done when the connection is."""

    def __init__(self, fail: Callable[[], object]) -> None:
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._fail = fail

    def data_received(self, data: bytes) -> None:
        self._fail()

    def pause_writing(self) -> None:
        self._fail()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(None)


async def connect(fail: Callable[[], object]) -> tuple[asyncio.Transport, Failing, socket.socket]:
    """A connection whose protocol fails, and its other end."""
    ours, theirs = socket.socketpair()
    transport, protocol = await asyncio.get_running_loop().create_connection(lambda: Failing(fail), sock=ours)
    return transport, protocol, theirs


async def fail_with(error: Exception) -> None:
    """Have a protocol fail with this error: it is given more to send than the other end takes."""

    def fail() -> None:
        raise error

    transport, protocol, theirs = await connect(fail)
    with theirs:
        transport.write(bytes(1 << 22))
        transport.abort()
        await protocol.lost


def run(make_loop: MakeLoop, work: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.get_loop().set_exception_handler(log_failure)
        runner.run(work)


@pytest.fixture(autouse=True)
def at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


def records(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Those of this handler, and all from warnings up."""
    return [each for each in caplog.records if each.name == log_failure.__module__ or each.levelno >= logging.WARNING]


@both_loops
@pytest.mark.parametrize("error", GONE, ids=lambda error: type(error).__name__)
def test_a_connection_that_has_gone_is_logged_at_debug(
    caplog: pytest.LogCaptureFixture, make_loop: MakeLoop, error: Exception
) -> None:
    run(make_loop, fail_with(error))
    (record,) = records(caplog)
    assert (record.levelname, record.getMessage()) == ("DEBUG", "a connection has gone")
    said = vars(record)
    assert (said["error"], said["what"]) == (error, "protocol.pause_writing() failed")


@both_loops
@pytest.mark.parametrize("error", DEFECTS, ids=lambda error: type(error).__name__)
def test_a_defect_of_a_protocol_is_an_error_with_its_traceback(
    caplog: pytest.LogCaptureFixture, make_loop: MakeLoop, error: Exception
) -> None:
    run(make_loop, fail_with(error))
    (record,) = records(caplog)
    assert (record.levelname, record.name) == ("ERROR", "asyncio")
    assert record.getMessage().startswith("protocol.pause_writing() failed\n")
    _, said, trace = record.exc_info or (None, None, None)
    assert said is error
    assert trace is not None


@both_loops
def test_an_error_of_no_connection_is_an_error_whatever_it_is(
    caplog: pytest.LogCaptureFixture, make_loop: MakeLoop
) -> None:
    def fail() -> None:
        raise ConnectionResetError

    async def work() -> None:
        asyncio.get_running_loop().call_soon(fail)
        await asyncio.sleep(0.01)

    run(make_loop, work())
    (record,) = records(caplog)
    assert record.levelname == "ERROR"
    assert record.getMessage().startswith("Exception in callback ")


def test_a_write_to_a_connection_that_uvloop_has_closed_is_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        gone, its_protocol, its_end = await connect(lambda: None)
        with its_end:
            gone.abort()
            await its_protocol.lost
        _, protocol, theirs = await connect(lambda: gone.write(b"the rest of a handshake"))
        with theirs:
            theirs.send(b"an answer")
            await protocol.lost

    uvloop.run(work(), loop_factory=new_event_loop)
    (record,) = records(caplog)
    assert record.levelname == "DEBUG"
    assert str(vars(record)["error"]).startswith("unable to perform operation on <UnixTransport ")


@pytest.mark.parametrize(
    ("run_of", "start"),
    [
        ("serve.serve.run_service", lambda: serve(serve_options([]))),
        ("schedule.schedule.run_scheduler", lambda: schedule(schedule_options(parser().parse_args(["schedule"])))),
    ],
    ids=["serve", "schedule"],
)
def test_both_programs_run_in_such_a_loop(
    run_of: str, start: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers: list[object] = []

    async def note_handler(*_: object) -> None:
        handlers.append(asyncio.get_running_loop().get_exception_handler())

    monkeypatch.setattr(f"extender_service.command.{run_of}", note_handler)
    start()
    assert handlers == [log_failure]

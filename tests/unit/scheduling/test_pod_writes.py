"""Writes about one pod keep their order; those about others do not wait for them; what may pass is tried again."""

import asyncio
from functools import partial

import pytest

from extender_service.config.rules import rules_of
from extender_service.kube.api_errors import ApiError, ApiStatus, KubeError, UnreachableError
from extender_service.scheduling.pod_writes import PodWrites
from tests.support.event_loop import in_event_loop


class Server:
    """Answers writes once `gate` is open, with the errors that are given first."""

    def __init__(self, *errors: KubeError) -> None:
        self.gate = asyncio.Event()
        self.errors = list(errors)
        self.tries = 0
        self.written: list[str] = []

    async def write(self, what: str) -> None:
        self.tries += 1
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        self.written.append(what)


def refusal(code: int) -> ApiError:
    return ApiError(ApiStatus(code, "", "no"))


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


@in_event_loop
async def test_writes_about_one_pod_keep_their_order_and_others_do_not_wait() -> None:
    writes, slow, fast = PodWrites(no_sleep), Server(), Server()
    fast.gate.set()
    writes.add("a", "default/a", lambda: slow.write("first"))
    writes.add("a", "default/a", lambda: fast.write("second"))
    other = writes.add("b", "default/b", lambda: fast.write("other"))
    await other
    assert (slow.written, fast.written) == ([], ["other"])
    slow.gate.set()
    await writes.close()
    assert (slow.written, fast.written) == (["first"], ["other", "second"])
    assert len(writes) == 0


@in_event_loop
async def test_a_write_that_fails_lets_the_next_one_go_on() -> None:
    writes, server = PodWrites(no_sleep), Server(refusal(403))
    server.gate.set()
    failing = writes.add("a", "default/a", lambda: server.write("first"))
    writes.add("a", "default/a", lambda: server.write("second"))
    with pytest.raises(ApiError):
        await failing
    await writes.close()
    assert server.written == ["second"]


@pytest.mark.parametrize(("errors", "reported"), [([403], []), ([403, 403], ["a"])])
@in_event_loop
async def test_only_a_failure_of_the_last_write_about_a_pod_is_reported(errors: list[int], reported: list[str]) -> None:
    writes, server, failed = PodWrites(no_sleep), Server(*map(refusal, errors)), list[str]()
    writes.on_failed = failed.append
    server.gate.set()
    for what in ("first", "second"):
        writes.add("a", "default/a", partial(server.write, what))
    await writes.close()
    assert failed == reported


@in_event_loop
async def test_a_server_that_is_down_for_a_moment_is_asked_four_times() -> None:
    writes, server = PodWrites(no_sleep), Server(UnreachableError("refused"), refusal(500), refusal(503))
    server.gate.set()
    await writes.add("a", "default/a", lambda: server.write("x"))
    assert (server.tries, server.written) == (4, ["x"])


@pytest.mark.parametrize("code", [403, 404, 409, 422])
def test_a_refusal_is_not_tried_again(code: int) -> None:
    @in_event_loop
    async def run() -> None:
        writes, server = PodWrites(no_sleep), Server(refusal(code))
        server.gate.set()
        with pytest.raises(ApiError):
            await writes.add("a", "default/a", lambda: server.write("x"))
        assert server.tries == 1

    run()


@pytest.mark.parametrize(
    ("minor", "message", "tries"),
    [
        (36, "the object has been modified", 1),
        (37, "the object has been modified", 2),
        (37, "Precondition failed: UID in precondition: a, UID in object meta: b", 1),
    ],
)
@in_event_loop
async def test_from_1_37_on_a_patch_that_lost_against_other_writers_is_sent_again(
    minor: int, message: str, tries: int
) -> None:
    conflict = ApiError(ApiStatus(409, "Conflict", message))
    writes, server = PodWrites(no_sleep, rules_of(minor)), Server(conflict)
    server.gate.set()
    writing = writes.add("a", "default/a", lambda: server.write("x"))
    await asyncio.wait([writing])
    assert (server.tries, writing.exception()) == (tries, None if tries == 2 else conflict)

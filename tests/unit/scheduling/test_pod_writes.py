"""Writes about one pod keep their order; those about others do not wait for them; what may pass is tried again."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from extender_service.config.rules import rules_of
from extender_service.kube.api_errors import ApiError, ApiStatus, KubeError, UnreachableError
from extender_service.scheduling.pod_writes import PodWrites
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_pod


class Server:
    """Answers writes with the errors that are given first; those about pods in `slow` once `gate` is open."""

    def __init__(self, *errors: KubeError, slow: tuple[str, ...] = ()) -> None:
        self.gate = asyncio.Event()
        self.slow = slow
        self.errors = list(errors)
        self.tries = 0
        self.written: list[tuple[str, object]] = []

    async def patch_pod_status(self, namespace: str, name: str, patch: Mapping[str, Any]) -> str:
        await self._write(name, patch["is"])
        return str(len(self.written))

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        await self._write(name, f"deleted {uid}")

    async def _write(self, name: str, what: object) -> None:
        self.tries += 1
        if name in self.slow:
            await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        self.written.append((name, what))


def refusal(code: int) -> ApiError:
    return ApiError(ApiStatus(code, "", "no"))


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


def patch(writes: PodWrites, name: str, what: str) -> asyncio.Task[None]:
    return writes.patch_status(make_pod(name), {"is": what})


async def delete(writes: PodWrites, begun: list[int], server: Server) -> bool:
    """Delete the pod p; `begun` gets how many writes had been tried before each of the two."""
    return await writes.delete("default", "p", "uid-of-p", {"is": "going"}, lambda: begun.append(server.tries))


@in_event_loop
async def test_writes_about_one_pod_keep_their_order_and_others_do_not_wait() -> None:
    server = Server(slow=("a",))
    writes = PodWrites(server, no_sleep)
    patch(writes, "a", "first")
    patch(writes, "a", "second")
    await patch(writes, "b", "other")
    assert (server.written, server.tries) == ([("b", "other")], 2)
    server.gate.set()
    await writes.close()
    assert server.written == [("b", "other"), ("a", "first"), ("a", "second")]
    assert len(writes) == 0


@in_event_loop
async def test_a_write_that_fails_lets_the_next_one_go_on() -> None:
    server = Server(refusal(403))
    writes = PodWrites(server, no_sleep)
    failing = patch(writes, "a", "first")
    patch(writes, "a", "second")
    with pytest.raises(ApiError):
        await failing
    await writes.close()
    assert server.written == [("a", "second")]


@pytest.mark.parametrize(("errors", "reported"), [([403], []), ([403, 403], ["uid-of-a"])])
@in_event_loop
async def test_only_a_failure_of_the_last_write_about_a_pod_is_reported(errors: list[int], reported: list[str]) -> None:
    failed = list[str]()
    writes = PodWrites(Server(*map(refusal, errors)), no_sleep)
    writes.on_failed = failed.append
    for what in ("first", "second"):
        patch(writes, "a", what)
    await writes.close()
    assert failed == reported


@pytest.mark.parametrize(
    ("errors", "then_deletes", "reported"),
    [([], False, [("uid-of-p", "2")]), ([403], False, [("uid-of-p", "1")]), ([], True, [])],
)
@in_event_loop
async def test_the_version_of_a_pod_is_reported_if_the_last_write_about_it_is_a_patch_that_succeeds(
    errors: list[int], then_deletes: bool, reported: list[tuple[str, str]]
) -> None:
    server, patched = Server(*map(refusal, errors)), list[tuple[str, str]]()
    writes = PodWrites(server, no_sleep)
    writes.on_patched = lambda uid, version: patched.append((uid, version))
    for what in ("first", "second"):
        patch(writes, "p", what)
    if then_deletes:
        await delete(writes, [], server)
    await writes.close()
    assert patched == reported


@in_event_loop
async def test_a_server_that_is_down_for_a_moment_is_asked_four_times() -> None:
    server = Server(UnreachableError("refused"), refusal(500), refusal(503))
    await patch(PodWrites(server, no_sleep), "a", "x")
    assert (server.tries, server.written) == (4, [("a", "x")])


@pytest.mark.parametrize("code", [403, 404, 409, 422])
def test_a_refusal_is_not_tried_again(code: int) -> None:
    @in_event_loop
    async def run() -> None:
        server = Server(refusal(code))
        with pytest.raises(ApiError):
            await patch(PodWrites(server, no_sleep), "a", "x")
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
    server = Server(conflict)
    writing = patch(PodWrites(server, no_sleep, rules_of(minor)), "a", "x")
    await asyncio.wait([writing])
    assert (server.tries, writing.exception()) == (tries, None if tries == 2 else conflict)


@in_event_loop
async def test_a_pod_gets_its_status_and_is_deleted_after_earlier_writes_about_it() -> None:
    server, begun = Server(), list[int]()
    writes = PodWrites(server, no_sleep)
    patch(writes, "p", "earlier")
    assert await delete(writes, begun, server)
    assert server.written == [("p", "earlier"), ("p", "going"), ("p", "deleted uid-of-p")]
    assert begun == [0, 2]


@pytest.mark.parametrize("errors", [[404], [500, 404]])
@in_event_loop
async def test_a_pod_that_is_gone_is_not_deleted_and_that_is_no_failure(errors: list[int]) -> None:
    server, failed = Server(*map(refusal, errors)), list[str]()
    writes = PodWrites(server, no_sleep)
    writes.on_failed = failed.append
    assert not await delete(writes, [], server)
    assert (server.written, server.tries, failed) == ([], len(errors), [])


@in_event_loop
async def test_a_pod_whose_status_cannot_be_written_is_not_deleted() -> None:
    server, begun = Server(refusal(403)), list[int]()
    with pytest.raises(ApiError):
        await delete(PodWrites(server, no_sleep), begun, server)
    assert (server.written, begun) == ([], [0])

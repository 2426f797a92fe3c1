import asyncio
import json
import math
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender_service.kube.api_errors import ApiError, InvalidAnswerError
from extender_service.kube.connection import event_stream
from extender_service.kube.connection.event_stream import EventStream
from extender_service.kube.resources.api_resources import PODS, Frame
from extender_service.kube.types.core import Pod


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": "7"}}


async def _pieces(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def events(*pieces: bytes) -> list[Frame[Pod]]:
    async def main() -> list[Frame[Pod]]:
        return [event async for event in EventStream(_pieces(list(pieces)), PODS.frame_decoder)]

    return asyncio.run(main())


STREAM = line("ADDED", pod("ä")) + line("MODIFIED", pod("b")) + line("DELETED", pod("c"))


@given(st.lists(st.integers(0, len(STREAM))))
def test_events_are_whole_however_the_stream_is_cut_into_pieces(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:end] for start, end in pairwise(edges)]
    assert [(event.type, event.object.metadata.name) for event in events(*pieces)] == [
        ("ADDED", "ä"),
        ("MODIFIED", "b"),
        ("DELETED", "c"),
    ]


def test_a_bookmark_has_a_version_and_nothing_else() -> None:
    bookmark = {
        "kind": "Pod",
        "metadata": {"resourceVersion": "9", "creationTimestamp": None},
        "spec": {"containers": None},
    }
    (event,) = events(line("BOOKMARK", bookmark))
    assert (event.type, event.object.metadata.resource_version) == ("BOOKMARK", "9")


def test_an_error_event_is_raised() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (5)"}
    with pytest.raises(ApiError, match="too old resource version") as error:
        events(line("ERROR", status))
    assert error.value.expired


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (b"<html>\n", "an event of the watch cannot be decoded: JSON is malformed"),
        (b"\n", "an event of the watch cannot be decoded: "),
        (line("REWOUND", pod("a")), "an event of the watch cannot be decoded: "),
        (line("ADDED", {"metadata": 7}), "an event of the watch cannot be decoded: "),
        (b'{"type":"ADDED"}\n', "an event of the watch cannot be decoded: "),
        (line("ERROR", {"code": "many"}), "an error of the watch cannot be decoded"),
        (STREAM[:-9], "the watch ended in the middle of an event"),
    ],
    ids=["not JSON", "empty", "unknown type", "not a pod", "no object", "no status", "cut short"],
)
def test_what_is_not_a_whole_event_is_an_error(bad: bytes, says: str) -> None:
    with pytest.raises(InvalidAnswerError) as error:
        events(bad)
    assert str(error.value).startswith(says)


def test_a_line_without_end_is_an_error_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "_MOST_LINE_BYTES", 1 << 20)
    taken = 0

    async def without_end() -> AsyncIterator[bytes]:
        nonlocal taken
        yield line("ADDED", pod("a"))
        while True:
            taken += 1000
            yield b" " * 1000

    async def main() -> None:
        events = aiter(EventStream(without_end(), PODS.frame_decoder))
        assert (await anext(events)).object.metadata.name == "a"
        with pytest.raises(InvalidAnswerError, match=r"^an event of the watch is larger than 1 MiB$"):
            await anext(events)

    asyncio.run(main())
    assert taken < 2 << 20


def test_it_is_as_current_as_the_last_line_that_made_sense() -> None:
    came = 0.0
    pieces = [STREAM[:9], STREAM[9:], STREAM + b"{", b"}\n"]
    told = []

    async def piece_by_piece() -> AsyncIterator[bytes]:
        nonlocal came
        for piece in pieces:
            came += 1.0
            yield piece

    async def main() -> None:
        stream = EventStream(piece_by_piece(), PODS.frame_decoder, clock=lambda: came)
        changes = aiter(stream)
        for _ in range(6):
            await anext(changes)
            told.append(stream.current_at)
        with pytest.raises(InvalidAnswerError):
            await anext(changes)
        told.append(stream.current_at)

    asyncio.run(main())
    # What comes in a piece counts once all of it has been passed on.
    never = -math.inf
    assert told == [never, never, never, 2.0, 2.0, 2.0, 3.0]


@pytest.mark.parametrize("pieces", [1, 3])
def test_other_tasks_run_while_thousands_of_events_are_taken_in(pieces: int) -> None:
    # By this clock each event takes a tenth of a millisecond.
    taken: list[str] = []
    turns: list[int] = []
    note = taken.append
    names = [f"pod-{number}" for number in range(3000)]
    lines = [line("ADDED", pod(name)) for name in names]
    share = len(lines) // pieces
    chunks = [b"".join(lines[first : first + share]) for first in range(0, len(lines), share)]

    async def one_by_one() -> AsyncIterator[bytes]:
        for chunk in chunks:
            await asyncio.sleep(0)  # the connection receives nothing while no other task runs
            yield chunk

    async def other() -> None:
        while True:
            turns.append(len(taken))
            await asyncio.sleep(0)

    async def main() -> None:
        task = asyncio.create_task(other())
        events = EventStream(one_by_one(), PODS.frame_decoder, clock=lambda: len(taken) / 10_000)
        async for event in events:
            note(event.object.metadata.name)
        task.cancel()

    asyncio.run(main())
    assert taken == names
    assert max(later - earlier for earlier, later in pairwise([0, *turns, len(names)])) <= 21

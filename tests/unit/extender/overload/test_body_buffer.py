import asyncio
from collections.abc import Callable

import msgspec
import pytest

from extender_service.extender.overload.body_buffer import BodyBuffer
from tests.support import virtual_time

SIZE = 2 << 20


def in_loop(test: Callable[[BodyBuffer], None]) -> None:
    async def run() -> None:
        test(BodyBuffer())

    asyncio.run(run())


def given_back(room: BodyBuffer, size: int = SIZE) -> int:
    body = bytearray(size)
    room.give_back(body)
    return id(body)


@pytest.mark.parametrize("size", [SIZE, SIZE - 5, SIZE // 2, SIZE + 5])
def test_a_large_body_is_read_into_the_memory_of_the_one_before(size: int) -> None:
    def test(room: BodyBuffer) -> None:
        kept = given_back(room)
        taken = room.take(size)
        assert id(taken) == kept
        assert len(taken) == min(size, SIZE)

    in_loop(test)


@pytest.mark.parametrize("size", [0, 1000])
def test_small_bodies_and_those_of_unknown_size_have_memory_of_their_own(size: int) -> None:
    def test(room: BodyBuffer) -> None:
        kept = given_back(room)
        assert room.take(size) == b""
        assert id(room.take(SIZE)) == kept

    in_loop(test)


def test_two_bodies_are_never_read_into_the_same_memory() -> None:
    def test(room: BodyBuffer) -> None:
        given_back(room)
        first, second = room.take(SIZE), room.take(SIZE)
        assert first is not second
        assert second == b""

    in_loop(test)


@pytest.mark.parametrize("part_of", [lambda body: body, memoryview, lambda body: memoryview(body)[1:2]])
def test_memory_that_somebody_still_needs_is_left_alone(part_of: Callable[[bytearray], object]) -> None:
    def test(room: BodyBuffer) -> None:
        body = bytearray(SIZE)
        needed = part_of(body)
        room.give_back(body)
        kept = id(body)
        del body
        assert id(room.take(SIZE)) != kept
        assert needed is not None

    in_loop(test)


def test_memory_that_something_was_decoded_from_is_left_alone() -> None:
    def test(room: BodyBuffer) -> None:
        body = bytearray(b'["%b","b"]' % (b"a" * SIZE))
        items = msgspec.json.decode(body, type=list[msgspec.Raw])
        room.give_back(body)
        del body
        room.take(SIZE)[:] = b"x" * SIZE
        assert bytes(items[1]) == b'"b"'

    in_loop(test)


@pytest.mark.parametrize("size", [1000, 65 << 20])
def test_memory_that_is_small_or_very_large_is_not_kept(size: int) -> None:
    def test(room: BodyBuffer) -> None:
        given_back(room, size)
        assert room.take(SIZE) == b""

    in_loop(test)


def test_memory_is_not_kept_for_long() -> None:
    async def test() -> None:
        room = BodyBuffer()
        given_back(room)
        await asyncio.sleep(3)
        kept = given_back(room)
        await asyncio.sleep(3)
        taken = room.take(SIZE)
        assert id(taken) == kept
        room.give_back(taken)
        del taken  # memory that is still needed is not kept at all
        await asyncio.sleep(6)
        assert room.take(SIZE) == b""

    virtual_time.run(test())

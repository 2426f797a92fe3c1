"""Turns: so many at once, the others in order."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from extender_service.kube.connection.turns import Turns
from tests.support.event_loop import in_event_loop


async def take(turns: Turns) -> None:
    if not turns.take_free():
        await turns.wait()


@in_event_loop
async def test_no_more_than_the_most_take_a_turn_and_others_follow_in_order() -> None:
    turns, begun = Turns(2), []

    async def work(name: str) -> None:
        await take(turns)
        begun.append(name)

    tasks = [asyncio.create_task(work(name)) for name in "abcd"]
    await asyncio.sleep(0)
    assert begun == ["a", "b"]
    turns.give_back()
    assert not turns.take_free(), "the turn is of the one that waits"
    await tasks[2]
    assert begun == ["a", "b", "c"]
    turns.give_back()
    await tasks[3]


@in_event_loop
async def test_a_turn_that_comes_as_its_task_is_cancelled_goes_to_the_next() -> None:
    turns = Turns(1)
    await take(turns)
    first, second = asyncio.create_task(take(turns)), asyncio.create_task(take(turns))
    await asyncio.sleep(0)
    turns.give_back()
    first.cancel()
    await second
    assert first.cancelled()


@given(st.integers(1, 3), st.lists(st.tuples(st.sampled_from(["take", "cancel", "end"]), st.integers(0, 9))))
def test_no_turn_is_lost_and_none_is_given_twice(most: int, steps: list[tuple[str, int]]) -> None:
    async def main() -> None:
        turns, under_way, end = Turns(most), 0, [asyncio.Event() for _ in range(10)]
        tasks: dict[int, asyncio.Task[None]] = {}

        async def work(number: int) -> None:
            nonlocal under_way
            await take(turns)
            under_way += 1
            try:
                await end[number].wait()
            finally:
                under_way -= 1
                turns.give_back()

        for step, number in steps:
            if step == "take" and number not in tasks:
                tasks[number] = asyncio.create_task(work(number))
            elif step == "cancel" and number in tasks:
                tasks[number].cancel()
            else:
                end[number].set()
            if number % 2:
                await asyncio.sleep(0)
            assert under_way <= most
        for event in end:
            event.set()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert all(turns.take_free() for _ in range(most))
        assert not turns.take_free()

    asyncio.run(main())

import asyncio
from collections.abc import Iterator
from functools import partial

from tests.counted.bytecodes import executed, finish, typical


def loop(rounds: int) -> None:
    for _ in range(rounds):
        pass


def test_each_round_of_a_loop_counts() -> None:
    once, twice, thrice = (executed(partial(loop, rounds)) for rounds in (100, 200, 300))
    assert thrice - twice == twice - once >= 200


def test_the_same_counts_the_same() -> None:
    assert executed(lambda: sorted(range(100), key=lambda number: -number)) == executed(
        lambda: sorted(range(100), key=lambda number: -number)
    )


def test_what_runs_in_c_does_not_count() -> None:
    assert executed(lambda: sum(range(100_000))) == executed(lambda: sum(range(10)))


def test_coroutines_count_without_an_event_loop() -> None:
    async def turns(count: int) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    once, twice, thrice = (executed(partial(finish, turns(count))) for count in (1, 2, 3))
    assert 0 < thrice - twice == twice - once


def test_what_comes_up_at_first_or_now_and_then_is_not_typical() -> None:
    def counts() -> Iterator[int]:
        yield from (900, 90, 20, 7, 7, 500, 7, 7)
        raise AssertionError("no more than that is counted")

    assert typical(counts()) == 7

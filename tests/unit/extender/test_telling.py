import asyncio

from extender_service.extender.observation import Observation
from extender_service.extender.telling import Telling


def observation(pod: str) -> Observation:
    return Observation(verb="filter", pod=pod, seconds=0.0)


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def test_a_call_is_told_about_a_moment_after_its_answer() -> None:
    told: list[str] = []

    async def run() -> None:
        telling = Telling(lambda observation: told.append(observation.pod))
        telling.interrupt()
        telling.plan(observation("a"))
        assert not told
        await turns(20)

    asyncio.run(run())
    assert told == ["a"]


def test_the_next_call_does_not_wait_for_it() -> None:
    told: list[str] = []

    async def run() -> None:
        telling = Telling(lambda observation: told.append(observation.pod))
        for pod in "abc":
            telling.interrupt()
            telling.plan(observation(pod))
            await turns(1)
        telling.interrupt()
        await turns(20)
        assert not told
        telling.plan(observation("d"))
        await turns(20)

    asyncio.run(run())
    assert told == ["a", "b", "c", "d"]


def test_of_calls_in_close_order_none_waits_for_long_to_be_told_about() -> None:
    told: list[str] = []

    async def run() -> None:
        telling = Telling(lambda observation: told.append(observation.pod))
        for number in range(100):
            telling.interrupt()
            telling.plan(observation(str(number)))
            assert len(told) > number - 8
        await turns(20)

    asyncio.run(run())
    assert told == [str(number) for number in range(100)]

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from extender_service.serving.callers.shared_calls import SharedCalls


class World:
    """Calls that wait until they are released, with a bound for those who wait for another's."""

    def __init__(self, most_waiting: int = 10) -> None:
        self.calls: SharedCalls[str, str] = SharedCalls(self._one_more)
        self.made: list[str] = []
        self.may_end = asyncio.Event()
        self.problem: Exception | None = None
        self.waiting = 0
        self._most_waiting = most_waiting

    def ask(self, key: str) -> asyncio.Task[str]:
        return asyncio.create_task(self.calls.get(key, lambda: self._call(key)))

    @contextmanager
    def _one_more(self) -> Iterator[None]:
        if self.waiting == self._most_waiting:
            raise PermissionError
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    async def _call(self, key: str) -> str:
        self.made.append(key)
        await self.may_end.wait()
        if self.problem is not None:
            raise self.problem
        return f"result of {key}"


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 5))


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_who_asks_for_the_same_at_the_same_time_shares_one_call() -> None:
    async def main() -> None:
        world = World()
        asked = [world.ask(key) for key in "aab"]
        await turns()
        world.may_end.set()
        assert await asyncio.gather(*asked) == ["result of a", "result of a", "result of b"]
        assert world.made == ["a", "b"]
        assert await world.ask("a") == "result of a"
        assert world.made == ["a", "b", "a"]

    run(main())


@pytest.mark.parametrize("gives_up", [0, 1])
def test_who_gives_up_cancels_the_call_for_no_other_and_waits_no_more(gives_up: int) -> None:
    async def main() -> None:
        world = World()
        asked = [world.ask("a") for _ in range(3)]
        await turns()
        assert world.waiting == 2
        asked.pop(gives_up).cancel()
        await turns()
        assert world.waiting == (2 if gives_up == 0 else 1)
        world.may_end.set()
        assert await asyncio.gather(*asked) == ["result of a"] * 2
        assert (world.made, world.waiting) == (["a"], 0)

    run(main())


def test_a_problem_is_for_all_who_asked_and_not_for_the_next() -> None:
    async def main() -> None:
        world = World()
        world.problem = ValueError("no")
        asked = [world.ask("a") for _ in range(2)]
        await turns()
        world.may_end.set()
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert found == [world.problem] * 2
        world.problem = None
        assert await world.ask("a") == "result of a"

    run(main())


def test_it_may_be_refused_to_wait_for_a_call_of_another() -> None:
    async def main() -> None:
        world = World(most_waiting=1)
        asked = [world.ask("a") for _ in range(2)]
        await turns()
        with pytest.raises(PermissionError):
            await world.ask("a")
        world.may_end.set()
        assert await asyncio.gather(*asked) == ["result of a"] * 2

    run(main())


def test_all_calls_can_be_cancelled() -> None:
    async def main() -> None:
        world = World()
        asked = [world.ask(key) for key in "aab"]
        await turns()
        world.calls.cancel()
        await asyncio.wait(asked)
        assert all(each.cancelled() for each in asked)

    run(main())


def test_a_call_that_fails_after_all_have_stopped_waiting_is_not_logged() -> None:
    async def main() -> None:
        logged: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        world = World()
        asked = world.ask("a")
        await turns()
        asked.cancel()
        world.problem = ValueError("the call fails")
        world.may_end.set()
        await turns()
        gc.collect()
        assert logged == []

    run(main())

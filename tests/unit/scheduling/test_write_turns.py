"""Turns: few writes at once, namespaces in turn, and writes that hang hold up no other namespace."""

import asyncio
from collections import Counter

import pytest

from extender_service.scheduling import write_turns
from extender_service.scheduling.write_turns import (
    HANG_SECONDS,
    MOST_HANGING,
    MOST_HANGING_IN_NAMESPACE,
    Turn,
    WriteTurns,
)
from tests.support.clusters.scheduler_world import turns
from tests.support.virtual_time import in_virtual_time

MOST = 4


class Writing:
    """Writes, each of which ends once its namespace is answered."""

    def __init__(self) -> None:
        self.held_back_seconds = 0.0
        self.turns = WriteTurns(MOST, lambda: self.held_back_seconds)
        self.begun: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._gates: dict[str, asyncio.Event] = {}

    async def add(self, namespace: str, count: int = 1) -> None:
        self._gates.setdefault(namespace, asyncio.Event())
        self.tasks += [asyncio.create_task(self._write(namespace)) for _ in range(count)]
        await turns()

    def answer(self, namespace: str) -> None:
        self._gates[namespace].set()

    async def end(self) -> None:
        """Answer all. Then all turns are free, and no more."""
        for gate in self._gates.values():
            gate.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        free = [self.turns.take_free("any") for _ in range(MOST + 1)]
        assert [turn is not None for turn in free] == [True] * MOST + [False]

    async def _write(self, namespace: str) -> None:
        async with self.turns.turn(namespace) as turn:
            for _ in range(2):
                turn.begin()
            self.begun.append(namespace)
            await self._gates[namespace].wait()


@in_virtual_time
async def test_few_write_at_once_and_namespaces_take_turns() -> None:
    writing = Writing()
    await writing.add("many", 10)
    await writing.add("few", 2)
    assert writing.begun == ["many"] * MOST
    writing.answer("many")
    writing.answer("few")
    await writing.end()
    assert writing.begun[MOST:] == ["many", "few", "many", "few", "many", "many", "many", "many"]


@in_virtual_time
async def test_writes_that_hang_hold_up_no_other_namespace_and_only_so_many_of_one_are_under_way() -> None:
    writing = Writing()
    await writing.add("broken", 100)
    await writing.add("good", 100)
    writing.answer("good")
    await asyncio.sleep(10 * HANG_SECONDS)
    count = Counter(writing.begun)
    assert count["good"] == 100
    assert MOST_HANGING_IN_NAMESPACE <= count["broken"] < MOST_HANGING_IN_NAMESPACE + MOST
    assert writing.turns.is_held_up("broken")
    await writing.end()
    assert Counter(writing.begun)["broken"] == 100
    assert not writing.turns.is_held_up("broken")


@in_virtual_time
async def test_a_wait_at_the_rate_limit_is_no_hanging() -> None:
    writing = Writing()
    writing.held_back_seconds = 10 * HANG_SECONDS
    await writing.add("slow", 2 * MOST)
    await asyncio.sleep(5 * HANG_SECONDS)
    assert len(writing.begun) == MOST
    await asyncio.sleep(8 * HANG_SECONDS)
    assert len(writing.begun) == 2 * MOST
    await writing.end()


@in_virtual_time
async def test_all_namespaces_together_have_a_bounded_number_of_hanging_writes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert MOST_HANGING > 10 * MOST_HANGING_IN_NAMESPACE
    monkeypatch.setattr(write_turns, "MOST_HANGING", 6)
    writing = Writing()
    for number in range(30):
        await writing.add(f"broken{number}")
    await asyncio.sleep(10 * HANG_SECONDS)
    assert len(writing.begun) == 6 + MOST
    writing.answer("broken0")
    await asyncio.sleep(5 * HANG_SECONDS)
    assert len(writing.begun) == 6 + MOST + 1  # one that kept its turn hangs now, too
    await writing.end()


@in_virtual_time
async def test_a_write_that_is_cancelled_leaves_its_turn_to_others() -> None:
    writing = Writing()
    await writing.add("a", 3 * MOST)
    for task in writing.tasks[: MOST + 2]:  # some have turns, some wait
        task.cancel()
    await turns()
    assert len(writing.begun) == 2 * MOST
    await writing.end()
    assert len(writing.begun) == 3 * MOST - 2


@in_virtual_time
async def test_a_turn_that_comes_as_its_task_is_cancelled_is_not_lost() -> None:
    writing = Writing()
    await writing.add("a", MOST)
    await writing.add("b", 1)
    writing.answer("a")
    while not writing.turns.has_free and writing.turns._others._starts:
        await asyncio.sleep(0)
    writing.tasks[-1].cancel()
    await writing.end()
    assert writing.begun == ["a"] * MOST


@in_virtual_time
async def test_what_does_not_use_its_turn_leaves_it_to_the_next() -> None:
    writing = Writing()
    await writing.add("a", MOST)
    asked: list[Turn] = []

    def refuse(turn: Turn) -> bool:
        asked.append(turn)
        return False

    for _ in range(10_000):
        writing.turns.ask("b", refuse)
    await writing.add("c")
    writing.answer("a")
    await turns()
    assert len(asked) == 10_000
    assert writing.begun == ["a"] * MOST + ["c"]
    await writing.end()


def test_urgent_writes_have_their_turns_before_all_others_that_wait() -> None:
    writes = WriteTurns(1, lambda: 0.0)
    begun: list[str] = []
    held: list[Turn] = []

    def ask(namespace: str, name: str, *, goes_first: bool = False) -> None:
        def begin(turn: Turn) -> bool:
            begun.append(name)
            held.append(turn)
            return True

        writes.ask(namespace, begin, goes_first=goes_first)

    ask("many", "first")
    ask("many", "second")
    ask("few", "third")
    ask("many", "urgent", goes_first=True)
    while held:
        held.pop().end()
    assert begun == ["first", "urgent", "second", "third"]

import asyncio
from functools import partial

import pytest

from extender_service.kube.connection.first_success import first_success
from tests.support import virtual_time


class Attempts:
    """Attempts that end after some seconds; `log` is which one began or was cancelled when, `discarded` what was."""

    def __init__(self) -> None:
        self.log: list[tuple[float, str]] = []
        self.discarded: list[str] = []

    async def make(self, name: str, seconds: float, error: Exception | None = None) -> str:
        self.log.append((virtual_time.time(), f"{name} begins"))
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.log.append((virtual_time.time(), f"{name} is cancelled"))
            raise
        if error is not None:
            raise error
        return name

    async def first(self, *attempts: tuple[str, float] | tuple[str, float, Exception]) -> str:
        try:
            return await first_success([partial(self.make, *attempt) for attempt in attempts], self.discarded.append)
        finally:
            await asyncio.sleep(0)  # the others end


def test_one_that_is_quick_is_the_only_one() -> None:
    attempts = Attempts()
    assert virtual_time.run(attempts.first(("a", 0.2), ("b", 0.0))) == "a"
    assert attempts.log == [(0.0, "a begins")]


def test_after_a_failure_the_next_begins_at_once() -> None:
    attempts = Attempts()
    assert virtual_time.run(attempts.first(("a", 0.0, OSError("refused")), ("b", 1.0))) == "b"
    assert attempts.log == [(0.0, "a begins"), (0.0, "b begins")]


def test_a_slow_one_has_a_quarter_of_a_second_before_the_next_begins_and_is_cancelled_if_that_is_quicker() -> None:
    attempts = Attempts()
    assert virtual_time.run(attempts.first(("a", 9.0), ("b", 9.0), ("c", 0.1))) == "c"
    assert sorted(attempts.log) == [
        (0.0, "a begins"),
        (0.25, "b begins"),
        (0.5, "c begins"),
        (0.6, "a is cancelled"),
        (0.6, "b is cancelled"),
    ]


def test_a_slow_one_may_still_be_the_first() -> None:
    attempts = Attempts()
    assert virtual_time.run(attempts.first(("a", 0.5), ("b", 9.0))) == "a"


def test_if_all_fail_the_last_failure_is_raised() -> None:
    attempts = Attempts()
    with pytest.raises(OSError, match="unreachable"):
        virtual_time.run(attempts.first(("a", 0.3, OSError("unreachable")), ("b", 0.0, OSError("refused"))))
    with pytest.raises(OSError, match="refused"):
        virtual_time.run(attempts.first(("a", 0.0, OSError("refused"))))


def test_when_it_is_cancelled_all_are() -> None:
    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await attempts.first(("a", 9.0), ("b", 9.0))

    attempts = Attempts()
    virtual_time.run(cancelled())
    assert sorted(attempts.log[2:]) == [(0.3, "a is cancelled"), (0.3, "b is cancelled")]


def test_what_a_second_one_brings_at_the_same_moment_is_discarded() -> None:
    attempts = Attempts()
    brought = virtual_time.run(attempts.first(("a", 0.5), ("b", 0.25)))
    assert {brought, *attempts.discarded} == {"a", "b"}

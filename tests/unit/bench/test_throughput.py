"""Pods a second are counted from kube-scheduler's first write, whatever that is about."""

from collections.abc import AsyncIterator

import pytest

from bench.throughput import Moment, Pace, pace_of
from extender_service.kube.types.core import Pod
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_pod

FIRST, SECOND = make_pod("first", "node-1"), make_pod("second", "node-2")


class Watch:
    """Shows pods at certain seconds. A program has used a tenth of the time until then."""

    def __init__(self, *changed: tuple[float, Pod]) -> None:
        self._changed = changed
        self._at = 0.0

    async def pods(self) -> AsyncIterator[Pod]:
        for at, pod in self._changed:
            self._at = at
            yield pod

    def now(self) -> Moment:
        return Moment(self._at, {"program": self._at / 10})

    async def pace(self) -> Pace:
        return await pace_of(self.pods(), {"first", "second"}, self.now)


@pytest.mark.parametrize("before", [make_pod("fits-nowhere"), make_pod("victim", "node-1")], ids=["failed", "victim"])
@in_event_loop
async def test_a_failed_attempt_or_a_victim_before_the_first_binding_takes_time(before: Pod) -> None:
    watch = Watch((100, before), (107, FIRST), (110, SECOND), (120, FIRST))
    assert await watch.pace() == Pace(2 / 10, {"program": 500.0})


@in_event_loop
async def test_a_binding_that_is_the_first_write_starts_the_clock() -> None:
    watch = Watch((100, FIRST), (103, make_pod("second")), (110, SECOND))
    assert await watch.pace() == Pace(1 / 10, {"program": 1000.0})

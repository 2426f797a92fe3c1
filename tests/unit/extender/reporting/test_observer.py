import asyncio
import logging
from itertools import count

import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.extender.reporting.observation import Observation
from extender_service.extender.reporting.observer import CallObserver
from extender_service.observability.metrics_registry import MetricsRegistry
from tests.support.clock import Clock


def observation(number: int) -> Observation:
    return Observation(verb="prioritize", pod=f"a/{number}", seconds=0.001, at=1e9 + number, asked=5, passed=5)


@pytest.fixture
def observe() -> CallObserver:
    return CallObserver(MetricsRegistry("1.2.3", Cluster(), {}, clock=Clock()))


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "extender_service")
    return caplog


def counted(calls: int, metrics: bytes) -> bool:
    return f'extender_service_requests_total{{result="ok",verb="prioritize"}} {calls}.0'.encode() in metrics


def test_calls_are_logged_a_moment_later_with_the_time_at_which_they_were(
    observe: CallObserver, log: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        for number in range(3):
            observe(observation(number))
        assert not log.records
        while not log.records:
            await asyncio.sleep(0.001)

    asyncio.run(run())
    assert [(record.getMessage(), record.created) for record in log.records] == [
        ("decided", 1e9),
        ("decided", 1e9 + 1),
        ("decided", 1e9 + 2),
    ]


def test_of_calls_in_close_order_only_so_many_wait(observe: CallObserver, log: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        for number in range(100):
            observe(observation(number))
            assert len(log.records) > number - 16
        observe.tell()
        observe.tell()

    asyncio.run(run())
    assert len(log.records) == 100


def test_metrics_have_all_calls(observe: CallObserver) -> None:
    async def run() -> None:
        for calls in range(1, 40):
            observe(observation(calls))
            assert counted(calls, observe.exposition("")[0])

    asyncio.run(run())


def test_scrapes_that_come_too_often_get_old_values_and_have_all_calls_logged(log: pytest.LogCaptureFixture) -> None:
    seconds = count()  # more pass with each look at the clock than encoding may take
    observe = CallObserver(MetricsRegistry("1.2.3", Cluster(), {}, clock=lambda: float(next(seconds)) / 2))

    async def run() -> list[bytes]:
        answers = []
        for calls in range(1, 4):
            observe(observation(calls))
            answers.append(observe.exposition("")[0])
            assert len(log.records) == calls
        return answers

    first, *others = asyncio.run(run())
    assert counted(1, first)
    assert first in others

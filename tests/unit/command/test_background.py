import asyncio
import gc
import logging
import os
import signal

import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.command import background as background_module
from extender_service.command.background import background, debug_on_signal, expire, settle_memory
from extender_service.extender.expectations import Expectations
from extender_service.seams import Machine
from tests.support.clock import Clock
from tests.support.objects import make_node, make_pod


def test_what_runs_in_the_background_ends_with_its_context() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(True)

    async def run() -> None:
        async with background(work()):
            await asyncio.sleep(0)
            assert not ended
        assert ended

    asyncio.run(run())


def test_the_signal_dumps_what_is_known_each_time(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.apply_node(make_node("a", {"cpu": "4"}))

    async def run() -> None:
        async with background(debug_on_signal(cluster, None)), asyncio.timeout(20):
            await asyncio.sleep(0)
            for times in (1, 2):
                os.kill(os.getpid(), signal.SIGUSR2)
                while caplog.messages.count("dump: node a: cpu_milli 0/4000") < times:
                    await asyncio.sleep(0.001)

    with caplog.at_level(logging.INFO, "extender_service"):
        asyncio.run(run())


def test_a_placement_whose_time_is_up_ends_without_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_module, "EXPIRY_SECONDS", 0.001)
    clock = Clock()
    cluster = Cluster()
    expectations = Expectations(cluster, clock=clock)
    expectations.expect(cluster.placements.place(make_pod("web"), "uid-of-web", "a"))

    async def run() -> None:
        async with background(expire(expectations)), asyncio.timeout(20):
            await asyncio.sleep(0.01)
            assert len(cluster.placements) == 1
            clock.now += 3600
            while len(cluster.placements):
                await asyncio.sleep(0.001)

    asyncio.run(run())


def test_garbage_is_looked_for_less_often_once_the_cluster_is_known() -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        settled: list[bool] = []
        settle_memory(Machine(memory_settled=lambda: settled.append(True)))
        assert settled
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold()[0] >= 50_000
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)

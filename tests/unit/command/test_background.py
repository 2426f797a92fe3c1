import asyncio
import logging
import os
import signal

import pytest

from extender_service.cluster.state.cluster import Cluster
from extender_service.command.background import background, debug_on_signal
from tests.support.objects import make_node


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

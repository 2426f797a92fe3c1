"""What all extenders of a configuration do together; filter, prioritize and preempt are tested where they are used."""

import asyncio
import time

import pytest

from extender_service.cluster.nodes.node_table import NodeTable
from extender_service.config.types import Extender
from extender_service.scheduler.extenders.access import posts_to
from extender_service.scheduler.extenders.extender_client import ExtenderClient
from extender_service.scheduler.extenders.extenders import NO_EXTENDERS, Extenders
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_pod
from tests.support.servers.http_server import http_server
from tests.support.servers.stub_extender import StubExtender


async def pod_json(namespace: str, name: str) -> bytes:
    raise AssertionError("no victim is read")


@pytest.mark.parametrize("answer", [{}, 500])
@in_event_loop
async def test_bindings_have_finished_once_the_extender_has_answered_all(answer: object) -> None:
    stub = StubExtender(bind=lambda _: answer)
    stub.gate.clear()
    async with http_server(stub.handle) as url:
        config = Extender(url_prefix=url, bind_verb="bind")
        async with posts_to(config, "extenders[0]", time.time) as posts:
            extenders = Extenders([ExtenderClient(config, posts, NodeTable(), pod_json)])
            bindings = [asyncio.create_task(extenders.bind(make_pod(name), "a")) for name in ("p", "q")]
            while len(stub.asked) < 2:
                await asyncio.sleep(0.001)
            finished = asyncio.create_task(extenders.finish_bindings())
            await asyncio.sleep(0.01)
            assert not finished.done()
            late = asyncio.create_task(extenders.bind(make_pod("late"), "a"))
            stub.gate.set()
            await asyncio.wait_for(finished, 20)
            await asyncio.wait(bindings, timeout=20)
            assert all((binding.exception() is None) == (answer == {}) for binding in bindings)
            assert len(stub.asked) == 2  # not about the late one, for which nothing would wait
            late.cancel()


@in_event_loop
async def test_without_extenders_there_is_no_binding_to_finish() -> None:
    await NO_EXTENDERS.finish_bindings()

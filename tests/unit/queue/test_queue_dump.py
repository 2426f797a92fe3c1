import asyncio

import pytest

from extender_service.queue import queue_dump as module
from extender_service.queue.queue_dump import queue_dump
from extender_service.testing import make_node, make_pod
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop


@in_event_loop
async def test_each_pod_says_where_it_waits_since_when_why_and_until_when() -> None:
    world = SchedulerWorld(make_node("a", {"cpu": "1", "pods": 9}))
    world.create(make_pod("large", {"cpu": "2"}))
    assert world.attempt_all() == ["large"]
    world.create(make_pod("gated", scheduling_gates=["example.com/quota"]), make_pod("next"))
    world.clock.pass_seconds(20)
    assert list(queue_dump(world.queue, world.clock())) == [
        "queue: activeQ:1; backoffQ:0; unschedulablePods:2",
        "active: default/next, 0 attempts, waiting for 20 s",
        "unschedulable: default/large, 1 attempts, waiting for 20 s, rejected by NodeResourcesFit, 280 s more at most",
        "gated: default/gated, 0 attempts, waiting for 20 s, rejected by SchedulingGates",
    ]
    await asyncio.sleep(0)


@in_event_loop
async def test_a_pod_that_backs_off_says_for_how_long() -> None:
    world = SchedulerWorld()
    world.create(make_pod("early"))
    world.attempt_all()
    world.clock.pass_seconds(0.4)
    assert list(queue_dump(world.queue, world.clock()))[1:] == [
        "backoff: default/early, 1 attempts, waiting for 0 s, 1 s more at most"
    ]


@in_event_loop
async def test_of_many_pods_only_some_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_LISTED", 2)
    world = SchedulerWorld()
    world.create(*(make_pod(f"p{number}") for number in range(5)))
    lines = list(queue_dump(world.queue, world.clock()))
    assert len(lines) == 4
    assert lines[-1] == "active: 3 more pods"


@in_event_loop
async def test_a_rejection_that_names_no_plugin_says_so() -> None:
    world = SchedulerWorld(make_node("a", {"cpu": "1", "pods": 9}))
    world.create(make_pod("large", {"cpu": "2"}))
    world.attempt_all()
    [entry] = world.queue.entries()
    entry.info.unschedulable_plugins = frozenset(("",))
    [_, line] = queue_dump(world.queue, world.clock())
    assert ", rejected by no plugin, " in line

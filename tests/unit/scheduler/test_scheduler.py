"""The loop: what becomes of a pod that is popped, and what it leaves behind."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.status import unschedulable
from extender_service.kube.types.core import (
    Affinity,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    ResourceList,
    SelectorRequirement,
)
from tests.support.clusters.scheduler_world import SchedulerWorld, important, turns
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.stub_plugins import Stub

CPU: ResourceList = {"cpu": "4"}
SMALL: ResourceList = {"cpu": "1", "pods": "10"}


def deleted(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, metadata=metadata)


@in_event_loop
async def test_a_pod_is_bound_and_users_see_it() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    world.create(pod)
    world.attempt()
    assert world.place_of(pod) == "a"
    await world.scheduler.close()
    assert world.api.written == [("bind", "p", ("uid-of-p", "a"))]
    [event] = world.events
    assert (event.reason, event.note) == ("Scheduled", "Successfully assigned default/p to a")
    assert event.controller == "default-scheduler"  # the pod's profile
    world.show_bound()
    assert world.where() == {}


@in_event_loop
async def test_a_node_that_comes_wakes_the_pod_that_fits_there_and_not_the_one_that_does_not() -> None:
    world = SchedulerWorld(make_node("a", {"cpu": "1", "pods": "10"}))
    world.create(make_pod("small", requests=CPU), make_pod("huge", requests={"cpu": "100"}))
    world.attempt_all()
    world.clock.pass_seconds(60)
    world.node_watch.apply(make_node("b"))
    assert world.attempt_all() == ["small"]
    await world.scheduler.close()


@in_event_loop
async def test_a_pod_that_is_being_deleted_is_not_attempted() -> None:
    world, pod = SchedulerWorld(make_node("a")), deleted(make_pod("p"))
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert world.api.written == []
    assert [(event.note, event.controller) for event in world.events] == [
        ("skip schedule deleting pod: default/p", "default-scheduler")
    ]


@in_event_loop
async def test_a_bug_that_one_pod_meets_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("unlucky")
    decide = world.engine.decide

    def broken(question: Any) -> Any:
        if question.pod.metadata.name == "unlucky":
            raise ZeroDivisionError("a bug")
        return decide(question)

    monkeypatch.setattr(world.engine, "decide", broken)
    world.create(pod, make_pod("other"))
    assert world.attempt_all() == ["unlucky", "other"]
    await world.scheduler.close()
    assert world.api.named("bind") == ["other"]
    assert [event.note for event in world.events if event.regarding.name == "unlucky"] == ["ZeroDivisionError: a bug"]
    assert world.where() == {"backoff": 1}


@in_event_loop
async def test_a_nominated_node_is_tried_first_also_where_pre_filter_names_others() -> None:
    names_b = Stub("OnlyB", pre_filter={"b"})
    world = SchedulerWorld(make_node("a"), make_node("b"), plugins={"preFilter": [(names_b, 0)], "filter": []})
    world.create(make_pod("p", nominated="a"))
    world.attempt()
    assert world.place_of(make_pod("p")) == "a"
    await world.scheduler.close()


@in_event_loop
async def test_a_nominated_node_that_does_not_fit_leaves_the_choice_to_pre_filter() -> None:
    names_b = Stub("OnlyB", pre_filter={"b"}, rejects={"a": unschedulable("full")})
    world = SchedulerWorld(*map(make_node, "abc"), plugins={"preFilter": [(names_b, 0)], "filter": [(names_b, 0)]})
    world.create(make_pod("p", nominated="a"))
    world.attempt()
    assert world.place_of(make_pod("p")) == "b"
    await world.scheduler.close()


@in_event_loop
async def test_where_pre_filter_rejects_the_pod_the_nominated_node_is_not_tried() -> None:
    refuses = Stub("Refuses", pre_filter=unschedulable("never"))
    world = SchedulerWorld(make_node("a"), plugins={"preFilter": [(refuses, 0)]})
    world.create(make_pod("p", nominated="a"))
    world.attempt()
    assert world.place_of(make_pod("p")) == ""
    await world.scheduler.close()


@in_event_loop
async def test_a_pod_of_a_scheduler_without_a_profile_is_left_to_that_scheduler() -> None:
    world, pod = SchedulerWorld(make_node("a")), make_pod("p")
    other = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduler_name="other"))
    world.create(other)
    assert world.attempt() == ""


@pytest.mark.parametrize("count", [200])
@in_event_loop
async def test_the_loop_places_all_pods_and_ends_when_the_queue_is_closed(count: int) -> None:
    world = SchedulerWorld(*[make_node(f"n{number}", {"cpu": "64", "pods": "110"}) for number in range(3)])
    running = asyncio.create_task(world.scheduler.run())
    world.create(*[make_pod(f"p{number}") for number in range(count)])
    while len(world.api.named("bind")) < count:
        await asyncio.sleep(0)
    world.queue.close()
    await running
    await world.scheduler.close()
    assert sorted(world.api.named("bind")) == sorted(f"p{number}" for number in range(count))


@in_event_loop
async def test_after_a_long_attempt_the_event_loop_is_free_for_a_while() -> None:
    takes = [3.0, 0.0]
    slept: list[float] = []
    slow = Stub("Slow", rejects=lambda: world.clock.pass_seconds(takes.pop(0)))
    world = SchedulerWorld(make_node("a"), plugins={"filter": [(slow, 0)]}, decision_seconds=4)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await asyncio.sleep(0)

    world.scheduler._sleep = sleep
    running = asyncio.create_task(world.scheduler.run())
    world.create(make_pod("slow"), make_pod("next"))
    while len(world.api.named("bind")) < 2:
        await asyncio.sleep(0)
    world.queue.close()
    await running
    await world.scheduler.close()
    assert slept.count(0.75) == 1


@in_event_loop
async def test_what_is_under_way_at_the_end_of_the_process_ends_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = SchedulerWorld(make_node("a", {"cpu": "8", "pods": "10"}), make_node("small", SMALL))
    world.api.slow, world.api.gate = {"bound", "refused", "low"}, asyncio.Event()
    world.create(make_pod("low", "a", requests=CPU), make_pod("bound", requests=CPU))
    world.attempt()
    world.create(important("high"), make_pod("refused", requests={"cpu": "100"}))
    world.attempt_all()
    await turns()
    events = len(world.events)
    await world.scheduler.abandon()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert (world.scheduler.unfinished_count, len(world.events), world.api.written) == (0, events, [])
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@in_event_loop
async def test_a_pod_is_tried_again_when_the_pod_has_gone_whose_anti_affinity_kept_it_out() -> None:
    world, pod = SchedulerWorld(make_node("a", labels={"zone": "1"}), rules=rules_of(37)), make_pod("p")
    terms = tuple(
        PodAffinityTerm("zone", LabelSelector(match_expressions=requirements), *namespaces)
        for requirements in ((), (SelectorRequirement("app", "NotIn", ("db", "web")),))
        for namespaces in ((), (("default",),), ((), LabelSelector()))
    )
    for number, term in enumerate(terms):
        affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
        apart = make_pod(f"apart-{number}", "a")
        apart = msgspec.structs.replace(apart, spec=msgspec.structs.replace(apart.spec, affinity=affinity))
        world.create(apart, pod)
        world.attempt()
        assert world.where() == {"unschedulable": 1}
        world.delete(apart)
        assert world.where() == {"backoff": 1}
        world.delete(pod)

"""Pods that preempt others: what they wait for, what becomes of their nominations, and what undoes these."""

import asyncio

import msgspec
import pytest

from extender_service.config.rules import Rules, rules_of
from extender_service.kube.api_errors import ApiError, ApiStatus
from extender_service.kube.types.core import Pod, ResourceList
from tests.support.clusters.scheduler_world import SchedulerWorld, full_of_reports, important, turns
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod, preempted

CPU: ResourceList = {"cpu": "4"}


def of_priority(pod: Pod, priority: int) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=priority))


@in_event_loop
async def test_an_important_pod_is_nominated_at_once_and_stays_in_flight_until_its_victims_are_deleted() -> None:
    world, victim, pod = SchedulerWorld(make_node("a")), make_pod("victim", "a", requests=CPU), important("p")
    world.create(victim, pod)
    world.api.slow, world.api.gate = {"victim"}, asyncio.Event()
    world.attempt()
    await turns()
    assert world.where() == {}
    assert world.queue.nominator.node_of == {pod.metadata.uid: "a"}
    world.api.gate.set()
    await world.scheduler.close()
    assert [(verb, name) for verb, name, _ in world.api.written] == [
        ("patch", "victim"),
        ("delete", "victim"),
        ("patch", "p"),
    ]
    condition = world.api.written[0][2]["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("DisruptionTarget", "PreemptionByScheduler")
    assert world.api.written[2][2]["status"]["nominatedNodeName"] == "a"
    assert world.notes(victim) == ["Preempted"]
    assert {event.controller for event in world.events} == {"default-scheduler"}
    assert world.where() == {"unschedulable": 1}
    world.delete(victim)
    world.clock.pass_seconds(10)
    world.queue.flush_backoff_completed()
    assert world.attempt() == "p"
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]


@in_event_loop
async def test_a_victim_that_ends_before_its_deletion_is_answered_wakes_the_pod_though_others_were_tried() -> None:
    world, victim, pod = SchedulerWorld(make_node("a")), make_pod("victim", "a", requests=CPU), important("p")
    world.create(victim, pod)
    world.api.slow, world.api.gate = {"victim"}, asyncio.Event()
    world.attempt()
    await turns()
    world.delete(victim)
    world.create(make_pod("other", requests={"cpu": "100"}))
    assert world.attempt() == "other"
    world.api.gate.set()
    await world.scheduler.close()
    world.clock.pass_seconds(2)
    world.queue.flush_backoff_completed()
    assert world.attempt() == "p"
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]


@pytest.mark.parametrize(("uses_hints", "queue"), [(False, "backoff"), (True, "unschedulable")])
@in_event_loop
async def test_a_pod_that_changes_while_its_victims_are_deleted_preempts_no_more(uses_hints: bool, queue: str) -> None:
    world = SchedulerWorld(make_node("a"), make_node("b"), uses_hints=uses_hints)
    world.api.slow, world.api.gate = {"low-a", "low-b"}, asyncio.Event()
    world.create(make_pod("low-a", "a", requests=CPU), make_pod("low-b", "b", requests=CPU))
    pod = important("high")
    world.create(pod)
    world.attempt()
    await turns()
    metadata = msgspec.structs.replace(pod.metadata, resource_version="2", labels={"team": "a"})
    world.create(msgspec.structs.replace(pod, metadata=metadata))
    assert world.attempt_all() == []
    world.api.gate.set()
    await world.scheduler.close()
    assert len(world.api.named("delete")) == 1
    assert world.where() == {queue: 1}  # it has changed: a reason to try again, unless hints say that no label helps
    [entry] = world.queue.entries()
    assert entry.info.pod.metadata.labels == {"team": "a"}


@pytest.mark.parametrize("minor", [31, 37])
@in_event_loop
async def test_a_pod_whose_nomination_waits_to_be_written_preempts_no_more(minor: int) -> None:
    world = full_of_reports(minor)
    world.create(important("high"))
    assert world.attempt() == "high"
    await turns()
    world.create(preempted(make_pod("low-a", "a", requests=CPU)))
    lower = make_pod("low-c", "c", requests=CPU)
    world.create(msgspec.structs.replace(lower, spec=msgspec.structs.replace(lower.spec, priority=-10)))
    world.node_watch.apply(make_node("c"))
    world.delete(make_pod("bystander", "a"))
    world.clock.pass_seconds(60)
    world.queue.flush_backoff_completed()
    assert "high" in world.attempt_all()
    await turns()
    assert world.api.named("delete") == ["low-a"]
    assert "high" not in world.api.named("patch")
    world.api.gate.set()
    await world.scheduler.close()
    [status] = [patch["status"] for verb, name, patch in world.api.written if (verb, name) == ("patch", "high")]
    assert status["nominatedNodeName"] == "a"
    assert "not eligible due to a terminating pod on the nominated node." in status["conditions"][0]["message"]


@pytest.mark.parametrize(("minor", "wakes"), [(32, False), (37, True)])
@in_event_loop
async def test_a_nomination_that_is_taken_back_before_it_was_written_wakes_others_from_1_33_on(
    minor: int, wakes: bool
) -> None:
    world = full_of_reports(minor)
    lower = important("lower")
    world.create(lower, important("other"))
    assert world.attempt_all() == ["lower", "other"]
    await turns()
    world.clock.pass_seconds(60)
    spec = msgspec.structs.replace(lower.spec, priority=200)
    world.create(msgspec.structs.replace(important("higher"), spec=spec))
    assert world.attempt() == "higher"
    await turns()
    assert ("other" in world.attempt_all()) == wakes
    await world.scheduler.abandon()


@in_event_loop
async def test_a_pod_whose_nomination_was_taken_back_before_it_was_written_preempts_elsewhere() -> None:
    world = full_of_reports(37)
    lower = important("lower")
    world.create(lower)
    assert world.attempt() == "lower"
    await turns()
    spec = msgspec.structs.replace(lower.spec, priority=200)
    world.create(msgspec.structs.replace(important("higher"), spec=spec))
    assert world.attempt() == "higher"
    await turns()
    world.create(preempted(make_pod("low-a", "a", requests=CPU)))
    world.create(make_pod("low-c", "c", requests=CPU))
    world.node_watch.apply(make_node("c"))
    world.clock.pass_seconds(60)
    world.queue.flush_backoff_completed()
    assert "lower" in world.attempt_all()
    await turns()
    assert world.api.named("delete") == ["low-a", "low-c"]
    await world.scheduler.abandon()


@in_event_loop
async def test_a_nomination_that_is_taken_back_while_it_waits_for_an_earlier_text_counts_no_more() -> None:
    world = SchedulerWorld(make_node("a", {"cpu": "1"}), rules=rules_of(37))
    world.api.slow, world.api.gate = {"lower"}, asyncio.Event()
    lower = important("lower")
    world.create(lower)
    assert world.attempt() == "lower"
    await turns()
    world.create(make_pod("low-a", "a", requests=CPU))
    world.clock.pass_seconds(60)
    world.node_watch.apply(make_node("a"))
    assert world.attempt() == "lower"
    await turns()
    spec = msgspec.structs.replace(lower.spec, priority=200)
    world.create(msgspec.structs.replace(important("higher"), spec=spec))
    assert world.attempt() == "higher"
    await turns()
    assert dict(world.queue.nominator.on_nodes()) == {"uid-of-higher": "a"}
    world.create(preempted(make_pod("low-a", "a", requests=CPU)), make_pod("low-c", "c", requests=CPU))
    world.clock.pass_seconds(60)
    world.node_watch.apply(make_node("c"))
    assert "lower" in world.attempt_all()
    await turns()
    assert world.api.named("delete") == ["low-a", "low-c"]
    await world.scheduler.abandon()


@pytest.mark.parametrize(
    ("rules", "wakes"), [(rules_of(31), False), (rules_of(37, {"SchedulerAsyncPreemption": False}), True)]
)
@in_event_loop
async def test_a_pod_whose_victims_are_being_deleted_is_not_nominated_where_a_more_important_one_preempts(
    rules: Rules, wakes: bool
) -> None:
    world = SchedulerWorld(make_node("a", {"cpu": "8", "pods": "10"}), rules=rules)
    world.api.slow, world.api.gate = {"low"}, asyncio.Event()
    low, middle = make_pod("low", "a", requests=CPU), of_priority(make_pod("middle", "a", requests=CPU), 150)
    world.create(low, middle, important("held"))
    assert world.attempt() == "held"
    await turns()
    world.delete(low)  # whose deletion is not answered yet
    world.create(make_pod("other", requests=CPU))
    assert world.attempt_all() == ["other"]
    world.create(of_priority(make_pod("higher", requests={"cpu": "8"}), 200))
    assert world.attempt() == "higher"
    await turns()
    assert world.api.named("delete") == ["middle"]
    assert dict(world.queue.nominator.on_nodes()) == {"uid-of-higher": "a"}
    world.clock.pass_seconds(60)
    assert ("other" in world.attempt_all()) == wakes
    world.api.gate.set()
    await world.scheduler.close()
    assert dict(world.queue.nominator.on_nodes()) == {"uid-of-higher": "a"}
    [status] = [patch["status"] for verb, name, patch in world.api.written if (verb, name) == ("patch", "held")]
    assert "nominatedNodeName" not in status


@pytest.mark.parametrize("rules", [rules_of(31), rules_of(37, {"SchedulerAsyncPreemption": False})])
@in_event_loop
async def test_a_pod_that_preempts_after_a_more_important_one_stays_nominated_beside_it(rules: Rules) -> None:
    world = SchedulerWorld(make_node("a", {"cpu": "8", "pods": "10"}), rules=rules)
    world.api.slow, world.api.gate = {"v1", "v2"}, asyncio.Event()
    world.create(make_pod("v1", "a", requests=CPU), make_pod("v2", "a", requests=CPU))
    for name, priority in (("higher", 200), ("lower", 150)):
        world.create(of_priority(make_pod(name, requests=CPU), priority))
        assert world.attempt() == name
        await turns()
    world.api.gate.set()
    await world.scheduler.close()
    assert sorted(world.api.named("delete")) == ["v1", "v2"]
    assert dict(world.queue.nominator.on_nodes()) == {"uid-of-higher": "a", "uid-of-lower": "a"}


@in_event_loop
async def test_a_bug_that_preemption_meets_undoes_the_nomination(monkeypatch: pytest.MonkeyPatch) -> None:
    world = SchedulerWorld(make_node("a"))

    async def buggy(namespace: str, name: str, uid: str) -> None:
        raise IndexError("a bug")

    monkeypatch.setattr(world.api, "delete_pod", buggy)
    world.create(make_pod("low", "a", requests=CPU), important("high"))
    world.attempt()
    await world.scheduler.close()
    assert world.where() == {"unschedulable": 1}
    assert "preemption: IndexError: a bug" in world.events[-1].note
    assert not list(world.queue.nominator.on_nodes())


@in_event_loop
async def test_the_condition_of_a_victim_that_is_going_already_keeps_its_time() -> None:
    world, pod = SchedulerWorld(make_node("a")), important("p")
    world.create(preempted(make_pod("victim", "a", requests=CPU)), pod)
    world.attempt()
    await world.scheduler.close()
    [(_, name, patch), *_] = world.api.written
    [condition] = patch["status"]["conditions"]
    assert (name, condition["type"]) == ("victim", "DisruptionTarget")
    assert "lastTransitionTime" not in condition


@in_event_loop
async def test_a_less_important_pod_does_not_take_the_room_that_was_made_for_another() -> None:
    world, victim = SchedulerWorld(make_node("a")), make_pod("victim", "a", requests=CPU)
    world.create(victim, important("p"))
    world.attempt()
    await world.scheduler.close()
    world.delete(victim)
    world.create(make_pod("thief", requests=CPU))
    world.clock.pass_seconds(10)
    world.queue.flush_backoff_completed()
    assert set(world.attempt_all()) == {"p", "thief"}
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]


@in_event_loop
async def test_a_victim_that_cannot_be_deleted_undoes_the_nomination() -> None:
    world, victim, pod = SchedulerWorld(make_node("a")), make_pod("victim", "a", requests=CPU), important("p")
    world.api.errors["delete", "victim"] = [ApiError(ApiStatus(403, "Forbidden", "no"))]
    world.create(victim, pod)
    world.attempt()
    await world.scheduler.close()
    assert world.queue.nominator.node_of == {}
    assert world.notes(victim) == []
    [event] = [event for event in world.events if event.regarding.name == "p"]
    assert event.note == "0/1 nodes are available: 1 Insufficient cpu. preemption: no"
    assert world.where() == {"unschedulable": 1}


@pytest.mark.parametrize(
    ("verb", "refusal"),
    [
        (verb, refusal)
        for verb in ("patch", "delete")
        for refusal in (
            ApiStatus(404, "NotFound", 'pods "victim" not found'),
            ApiStatus(409, "Conflict", "the UID in the precondition is another one"),
            ApiStatus(422, "Invalid", 'Pod "victim" is invalid: metadata.uid: Invalid value: "a": field is immutable'),
        )
    ],
)
@in_event_loop
async def test_a_victim_that_is_gone_already_is_as_good_as_deleted(
    verb: str, refusal: ApiStatus, caplog: pytest.LogCaptureFixture
) -> None:
    world, victim, pod = SchedulerWorld(make_node("a")), make_pod("victim", "a", requests=CPU), important("p")
    world.api.errors[verb, "victim"] = [ApiError(refusal)]
    world.create(victim, pod)
    world.attempt()
    await world.scheduler.close()
    assert world.queue.nominator.node_of == {pod.metadata.uid: "a"}
    assert world.notes(victim) == []  # another one deleted it
    [event] = [event for event in world.events if event.regarding.name == "p"]
    assert event.note == "0/1 nodes are available: 1 Insufficient cpu."
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    assert world.api.named("delete") == []

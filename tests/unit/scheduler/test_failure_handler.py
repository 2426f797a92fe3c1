"""What follows a failed attempt: what users see, and where the pod waits."""

import asyncio
import logging

import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cluster_event import ClusterEvent, QueueingHint
from extender_service.framework.handle import Handle
from extender_service.kube.api_errors import ApiError, ApiStatus
from extender_service.kube.types.core import Pod, ResourceList
from extender_service.scheduler.look_budget import MOST_LOOKS_A_TURN
from tests.support.binding_plugins import Late
from tests.support.clusters.queue_worlds import NODE_ADD
from tests.support.clusters.scheduler_world import SchedulerWorld, turns
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod

CPU: ResourceList = {"cpu": "4"}
SMALL: ResourceList = {"cpu": "1", "pods": "10"}


@in_event_loop
async def test_a_pod_that_fits_nowhere_waits_with_a_condition_that_says_why() -> None:
    world, pod = SchedulerWorld(make_node("a", {"cpu": "1", "pods": "10"})), make_pod("p", requests=CPU)
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert world.where() == {"unschedulable": 1}
    [(_, _, patch)] = world.api.written
    text = (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod."
    )
    assert patch["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": text,
            "lastProbeTime": None,
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }
    ]
    [event] = world.events
    assert (event.type, event.reason, event.note) == ("Warning", "FailedScheduling", text)


@pytest.mark.parametrize("uses_hints", [False, True])
@in_event_loop
async def test_the_failure_of_a_pod_that_was_made_again_leaves_the_new_pod_alone(uses_hints: bool) -> None:
    world = SchedulerWorld(make_node("a"), uses_hints=uses_hints)
    world.api.slow, world.api.gate = {"p"}, asyncio.Event()
    world.create(make_pod("p"))
    world.attempt()
    await turns()  # its binding is under way
    world.delete(make_pod("p"))
    world.create(make_pod("p", uid="another"))
    world.attempt()
    await turns()  # so is that of the new pod, behind it
    world.api.errors["bind", "p"] = [ApiError(ApiStatus(409, "Conflict", "another UID"))]
    world.api.gate.set()
    await world.scheduler.close()
    assert world.where() == {}
    assert not list(world.queue._in_flight)
    assert world.queue.nominator.node_of == {}
    assert world.api.named("bind") == ["p"]


@pytest.mark.parametrize(("minor", "notes"), [(35, ["FailedScheduling"]), (36, []), (37, [])])
@in_event_loop
async def test_the_failure_of_a_pod_that_was_made_again_has_no_event_from_1_36_on(minor: int, notes: list[str]) -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor))
    world.api.slow, world.api.gate = {"p"}, asyncio.Event()
    world.api.errors["bind", "p"] = [ApiError(ApiStatus(409, "Conflict", "another UID"))]
    world.create(make_pod("p"))
    world.attempt()
    await turns()  # its binding is under way
    world.delete(make_pod("p"))
    world.create(make_pod("p", uid="another"))
    world.api.gate.set()
    await world.scheduler.close()
    assert world.notes(make_pod("p")) == notes
    assert world.where() == {"active": 1}


class Gang(Late):
    """Makes pods wait, and is asked about new nodes, of which none helps. `asked` counts that by turn of the loop."""

    retry_on = (NODE_ADD,)

    def __init__(self, arguments: None, handle: Handle) -> None:
        super().__init__(arguments, handle)
        self.asked = [0]

    def queueing_hint(self, event: ClusterEvent, pod: Pod, old: object, new: object) -> QueueingHint:
        self.asked[-1] += 1
        return QueueingHint.SKIP


@in_event_loop
async def test_pods_that_time_out_at_once_look_at_what_they_missed_in_turns() -> None:
    pods, events = 12, 3000
    plugin = Gang(None, SchedulerWorld().handle)
    plugins = {"reserve": [(plugin, 0)], "permit": [(plugin, 0)]}
    world = SchedulerWorld(make_node("a"), plugins=plugins, rules=rules_of(34))
    world.create(*[make_pod(f"p{number}") for number in range(pods)])
    world.attempt_all()
    await turns()
    for number in range(events):
        world.queue.move_all_to_active_or_backoff(NODE_ADD, None, f"n{number}")
    for waiting in world.handle.waiting_pods:
        waiting.time_out()
    while world.scheduler.unfinished_count:
        plugin.asked.append(0)
        await asyncio.sleep(0)
    assert world.where() == {"unschedulable": pods}
    assert sum(plugin.asked) == pods * events
    assert max(plugin.asked) < MOST_LOOKS_A_TURN + events


@in_event_loop
async def test_thousands_of_pods_that_wait_for_the_same_plugins_share_the_sets_of_them() -> None:
    world = SchedulerWorld(make_node("small", SMALL))
    world.create(make_pod("p", requests=CPU), make_pod("q", requests=CPU))
    world.attempt_all()
    await world.scheduler.close()
    first, second = (entry.info for entry in world.queue.entries())
    assert first.unschedulable_plugins == {"NodeResourcesFit"}
    assert first.unschedulable_plugins is second.unschedulable_plugins
    assert first.pending_plugins is second.pending_plugins


@in_event_loop
async def test_the_log_has_no_more_of_why_a_pod_failed_than_its_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "extender_service")
    world = SchedulerWorld(make_node("a"))
    resources: ResourceList = {f"example.com/{'x' * 50}-{number}": "1" for number in range(100)}
    world.create(make_pod("greedy", requests=resources))
    assert world.attempt() == "greedy"
    [record] = [record for record in caplog.records if record.getMessage() == "cannot schedule a pod"]
    why = vars(record)["why"]
    assert why.startswith("0/1 nodes are available: 1 Insufficient example.com/x")
    assert len(why) == 1024
    await world.scheduler.close()
    [(_, _, patch)] = world.api.written
    assert len(patch["status"]["conditions"][0]["message"]) > 5000

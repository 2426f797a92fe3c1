"""What an attempt leaves of a pod's nominated node, and what it says of the room that it found, by release."""

import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.status import unschedulable
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.stub_plugins import Stub


@pytest.mark.parametrize(("minor", "nominated"), [(34, {"p-uid": "b"}), (35, {"p-uid": ""})])
@in_event_loop
async def test_a_failure_without_post_filter_takes_the_nominated_node_back_from_1_35_on(
    minor: int, nominated: dict[str, str]
) -> None:
    full = Stub("Full", rejects={"a": unschedulable("full")})
    world = SchedulerWorld(make_node("a"), plugins={"filter": [(full, 0)]}, rules=rules_of(minor))
    world.create(make_pod("p", nominated="b", uid="p-uid"))
    world.attempt()
    await world.scheduler.close()
    assert world.queue.nominator.node_of == nominated
    [(_, _, patch)] = world.api.written
    assert ("nominatedNodeName" in patch["status"]) == (minor == 35)


@pytest.mark.parametrize("minor", [31, 36, 37])
@in_event_loop
async def test_the_event_of_a_pod_that_preempts_says_where_from_1_37_on(minor: int) -> None:
    world, pod = SchedulerWorld(make_node("a"), rules=rules_of(minor)), make_pod("p", requests={"cpu": "4"})
    victim = make_pod("victim", "a", requests={"cpu": "4"})
    world.create(victim, msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=100)))
    world.attempt()
    await world.scheduler.close()
    [event] = [event for event in world.events if event.regarding.name == "p"]
    where = " preemption: found a potential placement for pod on node a, preempting 1 victims" if minor == 37 else ""
    assert event.note == f"0/1 nodes are available: 1 Insufficient cpu.{where}"

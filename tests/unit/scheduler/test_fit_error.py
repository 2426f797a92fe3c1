"""The text of a pod that fits nowhere, by release."""

import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.status import unschedulable
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.stub_plugins import Stub

LEFT_OUT = ", 2 node(s) didn't satisfy plugin(s) [Anywhere Elsewhere]"


@pytest.mark.parametrize(("minor", "left_out"), [(31, ""), (32, LEFT_OUT), (37, LEFT_OUT)])
@in_event_loop
async def test_nodes_that_pre_filter_leaves_out_are_counted_from_1_32_on(minor: int, left_out: str) -> None:
    elsewhere = Stub("Elsewhere", pre_filter={"a", "b"}, rejects={"a": unschedulable("full")})
    anywhere = Stub("Anywhere", pre_filter={"a", "c"})
    world = SchedulerWorld(
        *map(make_node, "abc"),
        plugins={"preFilter": [(elsewhere, 0), (anywhere, 0)], "filter": [(elsewhere, 0)]},
        rules=rules_of(minor),
    )
    world.create(make_pod("p"))
    world.attempt()
    await world.scheduler.close()
    [event] = world.events
    assert event.note == f"0/3 nodes are available: 1 full{left_out}."


@pytest.mark.parametrize("minor", [31, 37])
@in_event_loop
async def test_where_pre_filter_rejects_the_pod_its_reason_stands_alone(minor: int) -> None:
    never = Stub("Never", pre_filter=unschedulable("never"))
    world = SchedulerWorld(make_node("a"), plugins={"preFilter": [(never, 0)]}, rules=rules_of(minor))
    world.create(make_pod("p"))
    world.attempt()
    await world.scheduler.close()
    assert [event.note for event in world.events] == ["0/1 nodes are available: never."]

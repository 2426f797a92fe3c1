"""A failed binding as users read it, and what the pod waits for then, by release."""

from typing import ClassVar

import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import PreBind
from extender_service.framework.status import Status, unschedulable
from extender_service.kube.types.core import Pod
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.stub_plugins import make_handle, stub_cluster


class Closed(PreBind):
    """Rejects every pod."""

    name: ClassVar[str] = "Closed"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return unschedulable("closed today")


@pytest.mark.parametrize(
    ("minor", "note", "queue"),
    [
        (31, "0/1 nodes are available: 1 closed today.", "unschedulable"),
        (32, "0/1 nodes are available: 1 closed today.", "unschedulable"),
        (33, "closed today", "backoff"),
        (37, "closed today", "backoff"),
    ],
)
@in_event_loop
async def test_a_pod_that_pre_bind_rejects_waits_for_its_backoff_alone_from_1_33_on(
    minor: int, note: str, queue: str
) -> None:
    closed = Closed(None, make_handle(stub_cluster()))
    world, pod = (
        SchedulerWorld(make_node("a"), plugins={"preBind": [(closed, 0)]}, rules=rules_of(minor)),
        make_pod("p"),
    )
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    assert [event.note for event in world.events] == [note]
    [condition] = world.api.written[-1][2]["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("Unschedulable", note)
    assert (world.where(), world.place_of(pod)) == ({queue: 1}, "")

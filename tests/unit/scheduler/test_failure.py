"""A failed binding as users read it, and what the pod waits for then, by release."""

from typing import ClassVar

import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Bind, PreBind
from extender_service.framework.status import Status, unschedulable
from extender_service.kube.api_errors import ApiError, ApiStatus
from extender_service.kube.types.core import Pod
from tests.support.clusters.scheduler_world import SchedulerWorld
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod
from tests.support.stub_plugins import make_handle, stub_cluster


class Closed(PreBind, Bind):
    """Rejects every pod."""

    name: ClassVar[str] = "Closed"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return unschedulable("closed today")

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return unschedulable("closed today")


class Conflicts(PreBind):
    """Writes an object that has changed."""

    name: ClassVar[str] = "Conflicts"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        raise ApiError(ApiStatus(409, "Conflict", "the object has been modified"))


async def failed(minor: int, point: str, plugin: type[PreBind]) -> tuple[SchedulerWorld, str]:
    """A world in which a plugin has kept a pod from being bound, and the reason of its condition."""
    world = SchedulerWorld(
        make_node("a"), plugins={point: [(plugin(None, make_handle(stub_cluster())), 0)]}, rules=rules_of(minor)
    )
    pod = make_pod("p")
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    [condition] = world.api.written[-1][2]["status"]["conditions"]
    assert [event.note for event in world.events] == [condition["message"]]
    assert world.place_of(pod) == ""
    return world, condition["reason"]


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
    world, reason = await failed(minor, "preBind", Closed)
    assert (reason, world.events[0].note, world.where()) == ("Unschedulable", note, {queue: 1})


@pytest.mark.parametrize("minor", [31, 37])
@in_event_loop
async def test_a_pod_that_bind_rejects_waits_for_its_backoff_alone(minor: int) -> None:
    world, reason = await failed(minor, "bind", Closed)
    assert (reason, world.events[0].note, world.where()) == ("Unschedulable", "closed today", {"backoff": 1})


@in_event_loop
async def test_an_error_of_the_api_server_in_pre_bind_has_its_message_without_its_code() -> None:
    world, reason = await failed(37, "preBind", Conflicts)
    note = 'running PreBind plugin "Conflicts": the object has been modified'
    assert (reason, world.events[0].note) == ("SchedulerError", note)

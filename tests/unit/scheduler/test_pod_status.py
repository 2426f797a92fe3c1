"""What the API server is to show of a pod: where it is expected, and which generation its condition is about."""

import asyncio
from typing import ClassVar

import msgspec
import pytest

from extender_service.config.rules import rules_of
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Permit, PreBind
from extender_service.framework.status import SKIP, Code, Status
from extender_service.kube.api_errors import ApiError, ApiStatus
from extender_service.kube.types.core import Pod
from tests.support.clusters.scheduler_world import SchedulerWorld, turns, whole
from tests.support.event_loop import in_event_loop
from tests.support.objects import make_node, make_pod


class Waits(Permit, PreBind):
    """Makes pods wait in Permit or in PreBind."""

    name: ClassVar[str] = "Waits"

    def __init__(self, point: str) -> None:
        super().__init__(None, SchedulerWorld().handle)
        self.point = point
        self.may_go_on = asyncio.Event()
        self.pre_bound: list[str] = []

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status | None, float]:
        return (Status(Code.WAIT), 60.0) if self.point == "Permit" else (None, 0.0)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if self.point == "fails":
            raise OSError("no answer")
        if self.point == "rejects":
            return Status(Code.UNSCHEDULABLE, ("no",))
        return None if self.point == "PreBind" else SKIP

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.pre_bound.append(pod.metadata.name)
        if self.point == "PreBind":
            await self.may_go_on.wait()
        return None


def waiting(minor: int, point: str, nominated: str = "") -> tuple[SchedulerWorld, Waits]:
    """A world in which the binding of the pod p waits."""
    world, waits = SchedulerWorld(make_node("a"), rules=rules_of(minor)), Waits(point)
    pod = make_pod("p", nominated=nominated)
    profile = world.engine.profiles.of(whole(pod))
    profile.permit, profile.pre_bind = (waits,), (*profile.pre_bind, waits)
    world.create(pod)
    assert world.attempt() == "p"
    return world, waits


def nominations(world: SchedulerWorld) -> list[str | None]:
    patches = [patch["status"] for verb, _, patch in world.api.written if verb == "patch"]
    return [status["nominatedNodeName"] for status in patches if "nominatedNodeName" in status]


def let_go_on(world: SchedulerWorld, waits: Waits) -> None:
    for each in world.handle.waiting_pods:
        each.allow("Waits")
    waits.may_go_on.set()


@pytest.mark.parametrize(("minor", "expected"), [(31, []), (34, []), (35, ["a"]), (37, ["a"])])
@pytest.mark.parametrize("point", ["Permit", "PreBind"])
@in_event_loop
async def test_a_pod_is_expected_on_its_node_before_it_waits_from_1_35_on(
    point: str, minor: int, expected: list[str]
) -> None:
    world, waits = waiting(minor, point)
    await turns()
    assert nominations(world) == expected
    assert world.api.named("bind") == []
    let_go_on(world, waits)
    await world.scheduler.close()
    assert world.api.named("bind") == ["p"]
    assert nominations(world) == expected  # the API server takes the nomination back as it binds the pod


@in_event_loop
async def test_a_pod_whose_binding_does_not_wait_is_not_nominated_and_plugins_without_work_are_left_out() -> None:
    world, waits = waiting(37, "nowhere")
    await world.scheduler.close()
    assert (world.api.written, waits.pre_bound) == ([("bind", "p", ("uid-of-p", "a"))], [])


@in_event_loop
async def test_a_pod_that_is_nominated_for_its_node_already_is_not_patched() -> None:
    world, waits = waiting(37, "PreBind", nominated="a")
    await turns()
    let_go_on(world, waits)
    await world.scheduler.close()
    assert [verb for verb, _, _ in world.api.written] == ["bind"]


@in_event_loop
async def test_a_nomination_that_cannot_be_written_does_not_hold_up_the_binding() -> None:
    world, waits = waiting(37, "PreBind")
    world.api.errors["patch", "p"] = [ApiError(ApiStatus(403, "Forbidden", "no"))]
    await turns()
    let_go_on(world, waits)
    await world.scheduler.close()
    assert [verb for verb, _, _ in world.api.written] == ["bind"]


@pytest.mark.parametrize("is_shown", [False, True])
@in_event_loop
async def test_a_pod_that_is_not_bound_in_the_end_is_expected_nowhere(is_shown: bool) -> None:
    world, _ = waiting(37, "Permit")
    await turns()
    if is_shown:
        world.create(make_pod("p", nominated="a"))
    for each in world.handle.waiting_pods:
        each.reject("Waits", "no")
    await world.scheduler.close()
    assert nominations(world) == ["a", None]
    assert world.api.named("bind") == []


@in_event_loop
async def test_a_pod_that_goes_while_its_nomination_is_written_is_not_queued_again() -> None:
    world, waits = waiting(37, "PreBind")
    world.api.slow, world.api.gate = {"p"}, asyncio.Event()
    await turns()
    world.delete(make_pod("p"))
    world.api.gate.set()
    let_go_on(world, waits)
    await world.scheduler.close()
    assert world.where() == {}


@pytest.mark.parametrize(
    ("point", "note"),
    [
        ("fails", 'running PreBindPreFlight "Waits": OSError: no answer'),
        ("rejects", 'running PreBindPreFlight "Waits": no'),
    ],
)
@in_event_loop
async def test_a_plugin_that_fails_in_pre_flight_costs_the_pod_its_attempt(point: str, note: str) -> None:
    world, _ = waiting(37, point)
    await world.scheduler.close()
    assert [event.note for event in world.events] == [note]
    assert (world.place_of(make_pod("p")), world.where()) == ("", {"backoff": 1})


@pytest.mark.parametrize(("minor", "generation"), [(33, None), (34, 7), (37, 7)])
@in_event_loop
async def test_the_condition_names_the_generation_that_it_is_about_from_1_34_on(
    minor: int, generation: int | None
) -> None:
    world = SchedulerWorld(make_node("a"), rules=rules_of(minor))
    pod = whole(make_pod("p", requests={"cpu": "100"}))
    pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, generation=7))
    world.create(pod)
    world.attempt()
    await world.scheduler.close()
    [condition] = world.api.written[0][2]["status"]["conditions"]
    assert condition.get("observedGeneration") == generation

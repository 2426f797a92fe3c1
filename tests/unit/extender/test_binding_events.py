import asyncio
from collections.abc import Awaitable, Callable

from extender_service.kube.api_errors import KubeError
from extender_service.kube.types.extender_api import ExtenderBindingArgs
from extender_service.kube.writing.event_recorder import ObjectReference, Occurrence
from tests.support.clusters.extender_world import ExtenderWorld, Hold
from tests.support.objects import make_node, make_pod

WEB = make_pod("web")
ARGS = ExtenderBindingArgs("web", "default", WEB.metadata.uid, "a")
REFERENCE = ObjectReference("v1", "Pod", "default", "web", WEB.metadata.uid)
SCHEDULED = Occurrence(REFERENCE, "Normal", "Scheduled", "Binding", "Successfully assigned default/web to a")


def failed_scheduling(note: str) -> Occurrence:
    return Occurrence(REFERENCE, "Warning", "FailedScheduling", "Scheduling", note)


class Caller:
    """Asks for the pod to be bound, and may hang up, which the service is not told of before it asks."""

    def __init__(self, world: ExtenderWorld) -> None:
        self.is_gone = False
        self.call = asyncio.ensure_future(world.extender.bind(ARGS, self.hung_up))

    def hung_up(self) -> bool:
        return self.is_gone


def events_of(scenario: Callable[[ExtenderWorld, Hold], Awaitable[None]]) -> list[Occurrence]:
    """Begin with a pod whose binding will wait at the API server."""
    world = ExtenderWorld(make_node("a"), make_node("b"), mode="replace")
    world.cluster.apply_pod(world.pods.put(WEB))

    async def run() -> None:
        world.pods.hold = Hold()
        await scenario(world, world.pods.hold)

    asyncio.run(run())
    return world.events


async def end(hold: Hold, *callers: Caller) -> None:
    hold.go_on.set()
    await asyncio.gather(*(caller.call for caller in callers), return_exceptions=True)


def fail(world: ExtenderWorld) -> None:
    world.pods.applies = False
    world.pods.bind_errors = [KubeError("etcd is tired")]


def test_what_the_caller_hears_it_reports_itself() -> None:
    async def scenario(world: ExtenderWorld, hold: Hold) -> None:
        await end(hold, Caller(world))

    assert events_of(scenario) == []


def test_a_failure_that_the_caller_hears_it_reports_itself() -> None:
    async def scenario(world: ExtenderWorld, hold: Hold) -> None:
        fail(world)
        await end(hold, Caller(world))

    assert events_of(scenario) == []


def test_that_a_pod_was_bound_is_told_if_the_caller_is_gone() -> None:
    async def scenario(world: ExtenderWorld, hold: Hold) -> None:
        caller = Caller(world)
        await hold.arrived.wait()
        caller.is_gone = True
        await end(hold, caller)

    assert events_of(scenario) == [SCHEDULED]


def test_that_a_pod_was_not_bound_is_told_if_the_caller_is_gone() -> None:
    async def scenario(world: ExtenderWorld, hold: Hold) -> None:
        fail(world)
        caller = Caller(world)
        await hold.arrived.wait()
        caller.is_gone = True
        await end(hold, caller)

    assert events_of(scenario) == [failed_scheduling("binding default/web to a: etcd is tired")]


def test_a_call_that_the_server_cancelled_hears_nothing() -> None:
    async def scenario(world: ExtenderWorld, hold: Hold) -> None:
        caller = Caller(world)
        await hold.arrived.wait()
        caller.call.cancel()
        await end(hold, caller)
        await world.extender.close(1.0)

    assert events_of(scenario) == [SCHEDULED]


def test_one_caller_who_joined_and_waits_is_enough() -> None:
    async def scenario(world: ExtenderWorld, hold: Hold) -> None:
        first = Caller(world)
        await hold.arrived.wait()
        first.is_gone = True
        await end(hold, first, Caller(world))

    assert events_of(scenario) == []


def test_all_who_joined_may_be_gone() -> None:
    async def scenario(world: ExtenderWorld, hold: Hold) -> None:
        callers = [Caller(world), Caller(world)]
        await hold.arrived.wait()
        for caller in callers:
            caller.is_gone = True
        await end(hold, *callers)

    assert events_of(scenario) == [SCHEDULED]


def test_a_pod_that_was_bound_before_is_not_told_of_again() -> None:
    async def scenario(world: ExtenderWorld, hold: Hold) -> None:
        await end(hold, Caller(world))
        again = Caller(world)
        again.is_gone = True
        await end(hold, again)

    assert events_of(scenario) == []


def test_a_binding_that_a_stop_cut_short_is_told() -> None:
    async def scenario(world: ExtenderWorld, hold: Hold) -> None:
        caller = Caller(world)
        await hold.arrived.wait()
        caller.is_gone = True
        await world.extender.close(0.0)
        await asyncio.gather(caller.call, return_exceptions=True)

    assert events_of(scenario) == [failed_scheduling("binding default/web to a: extender-service was stopped")]

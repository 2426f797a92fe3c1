"""The verbs' tests show what comes of bindings that fail; here is what the binder alone promises."""

import asyncio
from typing import ClassVar

import pytest

from extender_service.cluster.state.placements import Placement
from extender_service.framework.cycle_state import CycleState
from extender_service.framework.interface import Bind
from extender_service.framework.status import Status, unschedulable
from extender_service.kube.api_errors import UnreachableError
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.confirmations import RETRY_SECONDS
from extender_service.scheduling.under_way import BindError
from tests.support import virtual_time
from tests.support.clusters.engines import EngineOnTwoNodes
from tests.support.clusters.extender_world import Hold
from tests.support.objects import make_pod

WEB = make_pod("web", requests={"cpu": "1"})
UID = pod_uid(WEB)


def test_a_binding_may_be_a_part_of_a_longer_way() -> None:
    world = EngineOnTwoNodes(WEB)
    binder = world.engine.binder

    async def way(placement: Placement) -> None:
        await binder.bind(placement)
        assert binder.binding_of(UID) is not None

    async def bind() -> None:
        under_way = binder.start(UID, "a", way(world.engine.place(WEB, "a")))
        assert binder.binding_of(UID) is under_way
        assert under_way.node_name == "a"
        await under_way.task
        assert binder.binding_of(UID) is None

    asyncio.run(bind())
    assert [bound[1:] for bound in world.api.bound] == [("web", UID, "a")]


def test_all_that_waits_is_undone_and_what_has_reached_bind_goes_on() -> None:
    waiting, preparing = (make_pod(name, requests={"cpu": "1"}) for name in ("permit", "pre-bind"))
    world = EngineOnTwoNodes(WEB, waiting, preparing)
    hold = world.api.hold = Hold()

    async def undo() -> list[object]:
        bindings = [
            asyncio.create_task(world.engine.bind(world.engine.place(pod, "a"))) for pod in (WEB, waiting, preparing)
        ]
        for step in ("bind", "permit", "pre-bind"):
            await world.reached(step)
        world.engine.binder.undo_all("the lease is gone")
        hold.go_on.set()
        return [str(outcome) for outcome in await asyncio.gather(*bindings, return_exceptions=True)]

    assert asyncio.run(undo()) == [
        "None",
        "binding default/permit to a: the lease is gone",
        "binding default/pre-bind to a: the lease is gone",
    ]
    assert world.cpu_milli("a") == 1000


def test_on_closing_bindings_may_finish_and_those_that_take_longer_are_undone() -> None:
    waiting = make_pod("permit", requests={"cpu": "1"})
    world = EngineOnTwoNodes(WEB, waiting)
    hold = world.api.hold = Hold()

    async def close() -> list[str]:
        bindings = [asyncio.create_task(world.engine.bind(world.engine.place(pod, "a"))) for pod in (WEB, waiting)]
        for step in ("bind", "permit"):
            await world.reached(step)
        asyncio.get_running_loop().call_later(10, hold.go_on.set)
        await world.engine.binder.close(20)
        return [str(outcome) for outcome in await asyncio.gather(*bindings, return_exceptions=True)]

    assert virtual_time.run(close()) == ["None", "binding default/permit to a: extender-service was stopped"]
    assert world.cpu_milli("a") == 1000


class Failing(Bind):
    """Raises, or refuses the pod."""

    name: ClassVar[str] = "Failing"
    refuses = False

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if self.refuses:
            return unschedulable("not today")
        raise IndexError("a bug")


@pytest.mark.parametrize(
    ("refuses", "reads", "cpu_milli", "text"),
    [
        (False, 1, 1000, 'binding default/web to a: running Bind plugin "Failing": IndexError: a bug'),
        (True, 0, 0, 'running Bind plugin "Failing": not today'),
    ],
)
def test_a_pod_counts_after_a_plugin_has_failed_in_bind_until_it_is_known_that_it_is_not_bound(
    refuses: bool, reads: int, cpu_milli: int, text: str
) -> None:
    world = EngineOnTwoNodes(WEB)
    plugin = Failing(None, world.handle)
    plugin.refuses = refuses
    (profile,) = world.engine.profiles
    profile.bind = (plugin,)
    world.api.read_errors = [UnreachableError("the connection was lost")]

    async def bind() -> None:
        with pytest.raises(BindError) as raised:
            await world.engine.bind(world.engine.place(WEB, "a"))
        assert str(raised.value) == text
        assert (world.api.reads, world.cpu_milli("a")) == (reads, cpu_milli)
        await asyncio.sleep(RETRY_SECONDS + 1)
        assert world.cpu_milli("a") == 0

    virtual_time.run(bind())


def test_a_pod_that_the_watch_shows_before_its_binding_begins_is_bound() -> None:
    world = EngineOnTwoNodes(WEB)
    bound = world.note_bound()

    async def bind() -> None:
        binding = asyncio.create_task(world.engine.bind(world.engine.place(WEB, "a")))
        world.cluster.apply_pod(make_pod("web", "a", requests={"cpu": "1"}))
        await binding

    asyncio.run(bind())
    assert (bound.pods, world.steps.reserved, world.api.bound) == (["web on a"], {UID: "a"}, [])


def test_a_pod_that_the_watch_shows_before_its_binding_begins_waits_in_permit_no_longer() -> None:
    pod = make_pod("permit", requests={"cpu": "1"})
    world = EngineOnTwoNodes(pod)
    bound = world.note_bound()

    async def bind() -> None:
        placement = world.engine.place(pod, "a")
        assert placement.reservation is not None
        placement.reservation.permit()
        waiting = world.waiting_pods.get(pod_uid(pod))
        assert waiting is not None
        world.cluster.apply_pod(make_pod("permit", "a", requests={"cpu": "1"}))
        await world.engine.bind(placement)
        assert waiting.is_rejected
        assert waiting.ended.is_set()

    asyncio.run(bind())
    assert (bound.pods, world.api.bound, len(world.waiting_pods)) == (["permit on a"], [], 0)


def test_a_pod_that_the_watch_shows_is_bound_though_its_binding_is_refused() -> None:
    pod = make_pod("permit", requests={"cpu": "1"})
    world = EngineOnTwoNodes(pod)
    bound = world.note_bound()

    async def bind() -> None:
        binding = asyncio.create_task(world.engine.bind(world.engine.place(pod, "a")))
        await world.reached("permit")
        world.cluster.apply_pod(make_pod("permit", "a", requests={"cpu": "1"}))
        waiting = world.waiting_pods.get(pod_uid(pod))
        assert waiting is not None
        waiting.reject("Steps", "not now")
        await binding

    asyncio.run(bind())
    assert (bound.pods, world.steps.reserved) == (["permit on a"], {pod_uid(pod): "a"})

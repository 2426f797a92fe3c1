"""The verbs' tests show what comes of bindings that fail; here is what the binder alone promises."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from extender_service.cluster.state.placements import Placement
from extender_service.kube.api_errors import UnreachableError
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.binder import CONFIRM_SECONDS, BindError
from tests.support import virtual_time
from tests.support.clusters.engines import Bound, EngineOnTwoNodes
from tests.support.clusters.extender_world import Hold
from tests.support.objects import make_pod

WEB = make_pod("web", requests={"cpu": "1"})
UID = pod_uid(WEB)
LOST = UnreachableError("the connection was lost")


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


def test_a_pod_that_is_bound_leaves_no_task_until_the_watch_shows_it() -> None:
    world = EngineOnTwoNodes(WEB)

    async def bind() -> None:
        await world.engine.bind(world.engine.place(WEB, "a"))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await world.engine.binder.close(0)

    asyncio.run(bind())


def test_settling_waits_for_what_is_under_way() -> None:
    world = EngineOnTwoNodes(WEB)
    hold = world.api.hold = Hold()

    async def settle() -> str | None:
        binding = asyncio.create_task(world.engine.bind(world.engine.place(WEB, "a")))
        await world.reached("bind")
        settling = asyncio.create_task(world.engine.binder.settle(UID))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not settling.done()
        hold.go_on.set()
        await binding
        return await settling

    assert asyncio.run(settle()) == "a"


def test_settling_a_pod_that_is_not_assumed_reads_nothing() -> None:
    world = EngineOnTwoNodes(WEB)
    world.engine.place(WEB, "b")
    assert asyncio.run(world.engine.binder.settle(UID)) is None
    world.cluster.apply_pod(make_pod("web", "a", requests={"cpu": "1"}))
    assert asyncio.run(world.engine.binder.settle(UID)) == "a"
    assert world.api.reads == 0


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


def test_a_binding_whose_outcome_is_not_known_keeps_its_room_even_if_it_is_undone() -> None:
    world = EngineOnTwoNodes(WEB)
    world.api.bind_errors, world.api.read_errors = [LOST], [LOST]

    async def bind() -> None:
        placement = world.engine.place(WEB, "a")
        with pytest.raises(BindError, match=r"^binding default/web to a: the connection was lost$"):
            await world.engine.bind(placement)
        world.engine.undo(placement, "it failed")
        assert world.cpu_milli("a") == 1000
        # It was bound, as reading it shows.
        assert await world.engine.binder.settle(UID) == "a"

    asyncio.run(bind())
    assert world.cpu_milli("a") == 1000


def _shown(world: EngineOnTwoNodes) -> None:
    world.cluster.apply_pod(make_pod("web", "a", requests={"cpu": "1"}))


def _shown_and_deleted(world: EngineOnTwoNodes) -> None:
    _shown(world)
    world.cluster.remove_pod(("default", "web"))


def _read(world: EngineOnTwoNodes) -> None:
    """Nothing happens: the watch is late, and reading the pod shows it."""


def _tried_again(world: EngineOnTwoNodes) -> None:
    world.api.put(WEB)
    placement = world.cluster.placements.get(UID)
    assert placement is not None
    world.engine.binder.start(UID, "a", world.engine.bind(placement))


@pytest.mark.parametrize("then", [_shown, _shown_and_deleted, _read, _tried_again])
@pytest.mark.parametrize("finds_out", [False, True])
def test_post_bind_runs_once_where_the_answer_to_a_binding_was_lost(
    then: Callable[[EngineOnTwoNodes], None], finds_out: bool
) -> None:
    world = EngineOnTwoNodes(WEB)
    world.api.bind_errors, world.api.read_errors = [LOST], [LOST]
    (profile,) = world.engine.profiles
    profile.post_bind += (bound := Bound(None, world.handle),)

    async def bind() -> None:
        binder, placement = world.engine.binder, world.engine.place(WEB, "a")
        with pytest.raises(BindError, match="the connection was lost"):
            await world.engine.bind(placement)
        assert bound.pods == []
        then(world)
        if finds_out:
            assert await binder.find_out(placement)
        await asyncio.sleep(CONFIRM_SECONDS + 1)
        if then is _read:
            _shown(world)
        await asyncio.sleep(CONFIRM_SECONDS + 1)

    virtual_time.run(bind())
    assert bound.pods == ["web on a"]


@pytest.mark.parametrize("is_read", [False, True])
def test_a_pod_that_the_watch_shows_is_bound_though_no_request_says_so(is_read: bool) -> None:
    world = EngineOnTwoNodes(WEB)
    world.api.bind_errors, world.api.read_errors = [LOST], [] if is_read else [LOST]
    hold = world.api.hold = Hold()

    async def bind() -> None:
        binding = asyncio.create_task(world.engine.bind(world.engine.place(WEB, "a")))
        await world.reached("bind")
        _shown_and_deleted(world)
        world.api.applies = False
        world.api.pods.clear()
        hold.go_on.set()
        await binding

    asyncio.run(bind())
    assert world.cpu_milli("a") == 0


def _with_bound(world: EngineOnTwoNodes) -> Bound:
    (profile,) = world.engine.profiles
    profile.post_bind += (bound := Bound(None, world.handle),)
    return bound


def test_a_pod_that_the_watch_shows_before_its_binding_begins_is_bound() -> None:
    world = EngineOnTwoNodes(WEB)
    bound = _with_bound(world)

    async def bind() -> None:
        binding = asyncio.create_task(world.engine.bind(world.engine.place(WEB, "a")))
        _shown(world)
        await binding

    asyncio.run(bind())
    assert (bound.pods, world.steps.reserved, world.api.bound) == (["web on a"], {UID: "a"}, [])


def test_a_pod_that_the_watch_shows_is_bound_though_its_binding_is_refused() -> None:
    pod = make_pod("permit", requests={"cpu": "1"})
    world = EngineOnTwoNodes(pod)
    bound = _with_bound(world)

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


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_pod_that_has_ended_before_the_watch_shows_it_was_bound(is_answered: bool) -> None:
    world = EngineOnTwoNodes(WEB)
    bound = _with_bound(world)
    if not is_answered:
        world.api.bind_errors, world.api.read_errors = [LOST], [LOST]

    async def bind() -> str | None:
        with suppress(BindError):
            await world.engine.bind(world.engine.place(WEB, "a"))
        assert world.cpu_milli("a") == 1000
        world.api.put(make_pod("web", "a", phase="Succeeded"))
        return await world.engine.binder.settle(UID)

    assert asyncio.run(bind()) == "a"
    assert (bound.pods, world.steps.reserved, world.cpu_milli("a")) == (["web on a"], {UID: "a"}, 0)


def test_a_pod_that_has_gone_before_the_watch_shows_it_was_bound() -> None:
    world = EngineOnTwoNodes(WEB)
    bound = _with_bound(world)

    async def bind() -> str | None:
        await world.engine.bind(world.engine.place(WEB, "a"))
        world.api.pods.clear()
        return await world.engine.binder.settle(UID)

    assert asyncio.run(bind()) is None
    assert (bound.pods, world.steps.reserved, world.cpu_milli("a")) == (["web on a"], {UID: "a"}, 0)

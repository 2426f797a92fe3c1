"""What becomes of pods whose bindings have ended. The verbs' tests show more of it, and those of the scheduler."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext, suppress

import pytest

from extender_service.cluster.state.placements import Placement
from extender_service.kube.api_errors import UnreachableError
from extender_service.kube.types.core import Pod
from extender_service.kube.types.pods import pod_uid
from extender_service.scheduling.confirmations import CONFIRM_SECONDS, RETRY_SECONDS
from extender_service.scheduling.under_way import BindError
from tests.support import virtual_time
from tests.support.clusters.engines import EngineOnTwoNodes
from tests.support.clusters.extender_world import Hold
from tests.support.objects import make_pod

WEB = make_pod("web", requests={"cpu": "1"})
UID = pod_uid(WEB)
LOST = UnreachableError("the connection was lost")


def _shown(world: EngineOnTwoNodes) -> None:
    world.cluster.apply_pod(make_pod("web", "a", requests={"cpu": "1"}))


def _shown_and_deleted(world: EngineOnTwoNodes) -> None:
    _shown(world)
    world.cluster.remove_pod(("default", "web"))


# Bindings that succeeded.


def test_a_pod_that_is_bound_leaves_no_task_until_the_watch_shows_it() -> None:
    world = EngineOnTwoNodes(WEB)

    async def bind() -> None:
        await world.engine.bind(world.engine.place(WEB, "a"))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await world.engine.binder.close(0)

    asyncio.run(bind())


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_pod_that_has_ended_before_the_watch_shows_it_was_bound(is_answered: bool) -> None:
    world = EngineOnTwoNodes(WEB)
    bound = world.note_bound()
    if not is_answered:
        world.api.bind_errors, world.api.read_errors = [LOST], [LOST]

    async def bind() -> str | None:
        with suppress(BindError):
            await world.engine.bind(world.engine.place(WEB, "a"))
        assert world.cpu_milli("a") == 1000
        world.api.put(make_pod("web", "a", phase="Succeeded"))
        return await world.engine.binder.confirmations.read_after_binding(UID)

    assert asyncio.run(bind()) == "a"
    assert (bound.pods, world.steps.reserved, world.cpu_milli("a")) == (["web on a"], {UID: "a"}, 0)


def test_a_pod_that_has_gone_before_the_watch_shows_it_was_bound() -> None:
    world = EngineOnTwoNodes(WEB)
    bound = world.note_bound()

    async def bind() -> str | None:
        await world.engine.bind(world.engine.place(WEB, "a"))
        world.api.pods.clear()
        return await world.engine.binder.confirmations.read_after_binding(UID)

    assert asyncio.run(bind()) is None
    assert (bound.pods, world.steps.reserved, world.cpu_milli("a")) == (["web on a"], {UID: "a"}, 0)


@pytest.mark.parametrize("ended_by", ["deleted", "finished"])
def test_a_bound_pod_that_has_ended_when_it_is_read_keeps_what_was_reserved(ended_by: str) -> None:
    world = EngineOnTwoNodes(WEB)
    placement = world.engine.place(WEB, "a")

    async def read_back() -> str | None:
        await world.engine.bind(placement)
        if ended_by == "deleted":
            del world.api.pods["default", "web"]
        else:
            world.api.put(make_pod("web", "a", phase="Succeeded"))
        return await world.engine.binder.confirmations.read_back(placement)

    assert asyncio.run(read_back()) == (None if ended_by == "deleted" else "a")
    assert (world.cpu_milli("a"), len(world.cluster.placements)) == (0, 0)
    assert world.steps.reserved == {UID: "a"}


@pytest.mark.parametrize(
    ("now", "is_confirmed"), [(WEB, False), (make_pod("web", "a", phase="Succeeded"), True), (None, True)]
)
def test_a_bound_pod_that_the_watch_will_never_show_is_reported_as_lost(now: Pod | None, is_confirmed: bool) -> None:
    world = EngineOnTwoNodes(WEB)
    placement = world.engine.place(WEB, "a")
    lost: list[Placement] = []
    world.engine.binder.confirmations.on_lost = lost.append

    async def bind() -> None:
        await world.engine.bind(placement)
        world.api.pods.clear()
        if now is not None:
            world.api.put(now)
        await asyncio.sleep(CONFIRM_SECONDS - 1)
        assert lost == []
        await asyncio.sleep(2)

    virtual_time.run(bind())
    assert (lost, placement.is_confirmed, world.cpu_milli("a")) == ([placement], is_confirmed, 0)


@pytest.mark.parametrize("is_answered", [False, True])
@pytest.mark.parametrize("shown", [None, "gone", "bound"])
def test_a_bound_pod_that_has_ended_returns_if_a_backup_brings_it_back_before_the_watch_shows_more(
    is_answered: bool, shown: str | None
) -> None:
    world = EngineOnTwoNodes(WEB)
    world.note_bound()
    placement, reported = world.engine.place(WEB, "a"), list[str]()
    confirmations = world.engine.binder.confirmations
    confirmations.on_lost = lambda _: reported.append("lost")
    confirmations.on_returned = lambda _: reported.append("returned")
    if not is_answered:
        world.api.bind_errors, world.api.read_errors = [LOST], [LOST]

    async def bind() -> None:
        with suppress(BindError):
            await world.engine.bind(placement)
        world.api.put(make_pod("web", "a", phase="Succeeded"))
        if not is_answered:
            assert await confirmations.until_known(placement)
        await asyncio.sleep(3 * CONFIRM_SECONDS)
        assert reported == ["lost"]
        world.api.put(WEB)
        if shown == "gone":
            world.cluster.remove_pod(("default", "web"))
        elif shown == "bound":
            _shown(world)
        await asyncio.sleep(3 * CONFIRM_SECONDS)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual_time.run(bind())
    assert reported == (["lost"] if shown else ["lost", "returned"])


def test_once_closed_no_pod_is_read_again() -> None:
    other = make_pod("other", requests={"cpu": "1"})
    world = EngineOnTwoNodes(WEB, other)

    async def close() -> int:
        await world.engine.bind(world.engine.place(WEB, "a"))
        world.api.bind_errors, world.api.read_errors = [LOST], [LOST]
        with suppress(BindError):
            await world.engine.bind(world.engine.place(other, "b"))
        await world.engine.binder.close(0)
        reads = world.api.reads
        await asyncio.sleep(2 * CONFIRM_SECONDS)
        return world.api.reads - reads

    assert virtual_time.run(close()) == 0


# Bindings that failed.


def test_a_pod_that_another_scheduler_has_bound_elsewhere_does_not_count_here() -> None:
    world = EngineOnTwoNodes(WEB)
    world.api.put(WEB, "b")
    with pytest.raises(BindError, match=r"^pod default/web is already bound to b$"):
        asyncio.run(world.engine.bind(world.engine.place(WEB, "a")))
    assert (world.cpu_milli("a"), world.steps.reserved) == (0, {})


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
        assert await world.engine.binder.confirmations.read_after_binding(UID) == "a"

    asyncio.run(bind())
    assert world.cpu_milli("a") == 1000


@pytest.mark.parametrize("applies", [False, True])
def test_who_waits_until_an_outcome_is_known_reads_the_pod_alone(applies: bool) -> None:
    world = EngineOnTwoNodes(WEB)
    bound = world.note_bound()
    world.api.applies, world.api.bind_errors, world.api.read_errors = applies, [LOST], [LOST] * 3

    async def bind() -> float:
        placement = world.engine.place(WEB, "a")
        with pytest.raises(BindError, match="the connection was lost"):
            await world.engine.bind(placement)
        await asyncio.sleep(0)  # the pod is to be read again
        assert await world.engine.binder.confirmations.until_known(placement) is applies
        return virtual_time.time()

    assert virtual_time.run(bind()) == pytest.approx(3 * RETRY_SECONDS)
    assert world.api.reads == 4  # when the binding failed, twice in vain, and at last
    assert (world.cpu_milli("a"), bound.pods) == ((1000, ["web on a"]) if applies else (0, []))


def test_a_binding_that_is_known_to_have_failed_needs_no_reading() -> None:
    world = EngineOnTwoNodes(WEB)
    world.api.applies, world.api.bind_errors = False, [LOST]

    async def bind() -> bool:
        placement = world.engine.place(WEB, "a")
        with suppress(BindError):
            await world.engine.bind(placement)
        assert world.api.reads == 1
        return await world.engine.binder.confirmations.until_known(placement)

    assert not asyncio.run(bind())
    assert world.api.reads == 1


def _read(world: EngineOnTwoNodes) -> None:
    """Nothing happens: the watch is late, and reading the pod shows it."""


def _tried_again(world: EngineOnTwoNodes) -> None:
    world.api.put(WEB)
    placement = world.cluster.placements.get(UID)
    assert placement is not None
    world.engine.binder.start(UID, "a", world.engine.bind(placement))


@pytest.mark.parametrize("then", [_shown, _shown_and_deleted, _read, _tried_again])
@pytest.mark.parametrize("is_waited_for", [False, True])
def test_post_bind_runs_once_where_the_answer_to_a_binding_was_lost(
    then: Callable[[EngineOnTwoNodes], None], is_waited_for: bool
) -> None:
    world = EngineOnTwoNodes(WEB)
    world.api.bind_errors, world.api.read_errors = [LOST], [LOST]
    bound = world.note_bound()

    async def bind() -> None:
        placement = world.engine.place(WEB, "a")
        with pytest.raises(BindError, match="the connection was lost"):
            await world.engine.bind(placement)
        assert bound.pods == []
        then(world)
        if is_waited_for:
            assert await world.engine.binder.confirmations.until_known(placement)
        await asyncio.sleep(CONFIRM_SECONDS + 1)
        if then is _read:
            _shown(world)
        await asyncio.sleep(CONFIRM_SECONDS + 1)

    virtual_time.run(bind())
    assert bound.pods == ["web on a"]


@pytest.mark.parametrize("is_answered", [True, False])
def test_what_was_read_before_a_binding_says_nothing_about_it(is_answered: bool) -> None:
    """Both requests may overtake each other: each has a connection of its own."""
    world = EngineOnTwoNodes(WEB)
    world.api.applies, world.api.bind_errors, world.api.read_errors = False, [LOST], [LOST]

    async def bind() -> str | None:
        placement = world.engine.place(WEB, "a")
        with pytest.raises(BindError, match="the connection was lost"):
            await world.engine.bind(placement)
        world.api.read_hold = hold = Hold()
        reading = asyncio.create_task(world.engine.binder.confirmations.read_after_binding(UID))
        await hold.arrived.wait()
        world.api.applies, world.api.read_hold = True, None
        if not is_answered:
            world.api.bind_errors, world.api.read_errors = [LOST], [LOST]
        with nullcontext() if is_answered else pytest.raises(BindError, match="the connection was lost"):
            await world.engine.bind(placement)
        hold.go_on.set()
        return await reading

    assert asyncio.run(bind()) == ("a" if is_answered else None)
    assert world.cpu_milli("a") == 1000


# Reading once, as Filter and Bind ask for it.


async def _nothing(world: EngineOnTwoNodes) -> None:
    """The pod waits for a node."""


async def _reserved(world: EngineOnTwoNodes) -> None:
    world.engine.place(WEB, "a")


async def _bound(world: EngineOnTwoNodes) -> None:
    await world.engine.bind(world.engine.place(WEB, "a"))


async def _bound_and_shown(world: EngineOnTwoNodes) -> None:
    await _bound(world)
    _shown(world)


async def _bound_and_gone(world: EngineOnTwoNodes) -> None:
    await _bound(world)
    world.api.pods.clear()


@pytest.mark.parametrize(
    ("before", "bound_to", "cpu_milli", "reads"),
    [
        (_nothing, None, 0, 0),
        (_reserved, None, 1000, 0),
        (_bound, "a", 1000, 1),
        (_bound_and_shown, "a", 1000, 0),
        (_bound_and_gone, None, 0, 1),
    ],
)
def test_an_assumed_pod_is_where_the_api_server_says_and_others_where_the_watch_says(
    before: Callable[[EngineOnTwoNodes], Awaitable[None]], bound_to: str | None, cpu_milli: int, reads: int
) -> None:
    world = EngineOnTwoNodes(WEB)

    async def read() -> str | None:
        await before(world)
        return await world.engine.binder.confirmations.read_after_binding(UID)

    assert asyncio.run(read()) == bound_to
    assert (world.cpu_milli("a"), world.api.reads) == (cpu_milli, reads)


def test_a_pod_is_read_once_no_binding_of_it_is_under_way() -> None:
    world = EngineOnTwoNodes(WEB)
    hold = world.api.hold = Hold()

    async def read() -> str | None:
        binding = asyncio.create_task(world.engine.bind(world.engine.place(WEB, "a")))
        await world.reached("bind")
        reading = asyncio.create_task(world.engine.binder.confirmations.read_after_binding(UID))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not reading.done()
        hold.go_on.set()
        await binding
        return await reading

    assert asyncio.run(read()) == "a"


def test_a_reserved_pod_that_the_watch_shows_elsewhere_is_not_read() -> None:
    world = EngineOnTwoNodes(WEB)
    world.engine.place(WEB, "b")
    _shown(world)
    assert asyncio.run(world.engine.binder.confirmations.read_after_binding(UID)) == "a"
    assert world.api.reads == 0


def test_a_pod_that_cannot_be_read_is_an_error_and_goes_on_to_count() -> None:
    world = EngineOnTwoNodes(WEB)

    async def read() -> None:
        await _bound(world)
        world.api.read_errors = [LOST]
        with pytest.raises(BindError, match=r"^reading pod default/web: the connection was lost$"):
            await world.engine.binder.confirmations.read_after_binding(UID)

    asyncio.run(read())
    assert world.cpu_milli("a") == 1000


def test_what_is_older_than_what_the_watch_has_shown_does_not_count() -> None:
    world = EngineOnTwoNodes(WEB)

    async def read() -> str | None:
        await _bound(world)
        reading = asyncio.create_task(world.engine.binder.confirmations.read_after_binding(UID))
        hold = world.api.read_hold = Hold()
        await hold.arrived.wait()
        _shown_and_deleted(world)
        hold.go_on.set()
        return await reading

    assert asyncio.run(read()) is None
    assert (world.cluster.pod(UID), world.cpu_milli("a")) == (None, 0)

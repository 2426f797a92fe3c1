import asyncio

import pytest

from extender_service.serving.connection_limits import ConnectionLimits, LimitedConnections
from extender_service.serving.refusals import Refusals
from tests.support.clock import Clock


class Caller:
    """A connection that does as it is told."""

    def __init__(self, connections: LimitedConnections, clock: Clock, *, has_asked: bool = False) -> None:
        self.due = clock() + 10
        self.unsent_since: float | None = None
        self.is_busy = False
        self.is_reading = False
        self.unsent_bytes = 0
        self.is_gone = False
        connections.add(self)
        if has_asked:
            connections.has_asked(self)

    def hang_up(self) -> None:
        self.is_gone = True


class World:
    def __init__(self, **limits: int) -> None:
        self.clock = Clock()
        self.refusals = Refusals(self.clock)
        self.held = LimitedConnections(ConnectionLimits(**limits), self.refusals, self.clock)

    def caller(self, *, has_asked: bool = False) -> Caller:
        return Caller(self.held, self.clock, has_asked=has_asked)


def test_a_new_connection_takes_the_place_of_the_oldest_that_never_asked() -> None:
    world = World(connections=4)
    known, first, second = world.caller(has_asked=True), world.caller(), world.caller()
    assert world.held.make_room()
    third = world.caller()
    assert world.refusals.counts["crowd"] == 0
    gone = []
    for _ in range(3):
        assert world.held.make_room()
        world.caller()
        gone.append([stranger.is_gone for stranger in (first, second, third)])
    assert gone == [[True, False, False], [True, True, False], [True, True, True]]
    assert not known.is_gone
    assert (len(world.held), world.refusals.counts["crowd"]) == (4, 3)


def test_among_those_that_have_asked_it_is_the_one_that_is_idle_for_longest() -> None:
    world = World(connections=3)
    first, second, third = (world.caller(has_asked=True) for _ in range(3))
    first.due, second.due, third.due = 30, 10, 20
    second.is_busy = True
    assert world.held.make_room()
    assert (first.is_gone, second.is_gone, third.is_gone) == (False, False, True)


def test_idle_connections_make_room_before_one_that_has_just_been_opened() -> None:
    world = World(connections=3)
    first, second = (world.caller(has_asked=True) for _ in range(2))
    probe = world.caller()
    assert world.held.make_room()
    assert (first.is_gone, second.is_gone, probe.is_gone) == (True, False, False)


def test_connections_that_are_always_sending_do_not_push_out_one_that_has_just_been_opened() -> None:
    world = World(connections=3)
    first, second = (world.caller(has_asked=True) for _ in range(2))
    first.is_reading = second.is_reading = True
    probe = world.caller()
    assert world.held.make_room()
    assert (first.is_gone, second.is_gone, probe.is_gone) == (True, False, False)


def test_a_request_is_cut_off_only_when_nothing_is_idle() -> None:
    world = World(connections=4)
    asking, idle, busy = (world.caller(has_asked=True) for _ in range(3))
    stranger = world.caller()
    world.clock.pass_seconds(2)
    asking.is_reading, busy.is_busy = True, True
    asking.due, idle.due = 10, 130
    gone = []
    for _ in range(3):
        assert world.held.make_room()
        world.caller(has_asked=True).is_busy = True
        gone.append((idle.is_gone, stranger.is_gone, asking.is_gone))
    assert gone == [(True, False, False), (True, True, False), (True, True, True)]
    assert not world.held.make_room()
    assert not busy.is_gone


def test_a_first_request_is_cut_off_after_strangers_that_are_idle() -> None:
    world = World(connections=3)
    asking, first, second = (world.caller() for _ in range(3))
    asking.is_reading = True
    gone = []
    for _ in range(3):
        assert world.held.make_room()
        world.caller(has_asked=True).is_busy = True
        gone.append((first.is_gone, second.is_gone, asking.is_gone))
    assert gone == [(True, False, False), (True, True, False), (True, True, True)]


def test_strangers_that_never_end_their_requests_push_out_their_own() -> None:
    """Neither a probe that has just connected, nor kube-scheduler's connections."""
    world = World(connections=4)
    idle = world.caller(has_asked=True)
    slow = [world.caller() for _ in range(2)]
    for each in slow:
        each.is_reading = True
    world.clock.pass_seconds(1)
    probe = world.caller()
    for _ in range(2):
        assert world.held.make_room()
        world.caller().is_reading = True
    assert all(each.is_gone for each in slow)
    assert not probe.is_gone
    assert not idle.is_gone


def test_a_fast_flood_of_strangers_pushes_out_no_connection_that_has_asked() -> None:
    world = World(connections=4)
    idle = world.caller(has_asked=True)
    flood = [world.caller() for _ in range(3)]
    for _ in range(3):
        assert world.held.make_room()
        world.caller()
    assert all(each.is_gone for each in flood)
    assert not idle.is_gone


def test_a_new_connection_takes_any_that_is_idle() -> None:
    world = World(connections=3)
    stranger = world.caller()
    for _ in range(2):
        world.caller(has_asked=True).is_busy = True
    assert world.held.make_room()
    assert stranger.is_gone


def test_there_is_no_room_while_all_are_busy() -> None:
    world = World(connections=1)
    world.caller(has_asked=True).is_busy = True
    assert not world.held.make_room()


def test_a_connection_that_is_being_opened_counts_and_can_be_given_up() -> None:
    async def run() -> None:
        world = World(connections=1)
        never = asyncio.create_task(asyncio.Event().wait())
        world.held.open(never)  # type: ignore[arg-type]
        assert len(world.held) == 1
        assert world.held.make_room()
        assert len(world.held) == 0
        with pytest.raises(asyncio.CancelledError):
            await never
        opened = asyncio.create_task(asyncio.sleep(0))
        world.held.open(opened)
        await opened
        await asyncio.sleep(0)
        assert len(world.held) == 0

    asyncio.run(run())


def test_who_is_too_slow_goes() -> None:
    world = World()
    slow, prompt = world.caller(), world.caller(has_asked=True)
    world.clock.pass_seconds(9)
    prompt.due = world.clock() + 10
    world.held.look(0.1)
    assert not slow.is_gone
    world.clock.pass_seconds(2)
    world.held.look(0.1)
    assert (slow.is_gone, prompt.is_gone, len(world.held)) == (True, False, 1)


def test_nobody_was_slow_while_this_process_was() -> None:
    """Suspended, or busy with one decision: what was sent meanwhile is still to be read."""
    world = World()
    caller = world.caller()
    world.clock.pass_seconds(60)
    world.held.look(59)
    assert not caller.is_gone
    world.clock.pass_seconds(10)
    world.held.look(0.1)
    assert caller.is_gone


def test_an_answer_must_be_taken_in_time() -> None:
    world = World(request_seconds=5)
    gone, goes_on = world.caller(has_asked=True), world.caller(has_asked=True)
    for caller in (gone, goes_on):
        caller.due = world.clock() + 100
        world.held.pause(caller)
    world.held.resume(goes_on)
    world.clock.pass_seconds(6)
    world.held.look(0.1)
    assert (gone.is_gone, goes_on.is_gone) == (True, False)
    assert world.refusals.counts["slow"] == 1


def test_answers_that_are_not_taken_have_a_bound_together() -> None:
    world = World(unsent_bytes=100)
    callers = [world.caller(has_asked=True) for _ in range(3)]
    for caller in callers:
        caller.unsent_bytes = 45
        world.held.pause(caller)
    assert [caller.is_gone for caller in callers] == [True, False, False]


def test_the_look_is_taken_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    monkeypatch.setattr("extender_service.serving.connection_limits._LOOK_SECONDS", 0.001)

    async def run() -> None:
        world = World()
        monkeypatch.setattr(world.held, "look", looks.append)
        watching = asyncio.create_task(world.held.watch())
        async with asyncio.timeout(5):
            while len(looks) < 3:
                await asyncio.sleep(0)
        watching.cancel()

    asyncio.run(run())

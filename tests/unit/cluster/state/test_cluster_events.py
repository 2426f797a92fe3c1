import asyncio

from extender_service.cluster.state.cluster_events import ClusterEvent, ClusterEvents


async def outcome_of(wanted: ClusterEvent, happening: ClusterEvent) -> bool:
    """Whether somebody who waits for one kind of change hears of another before he gives up."""
    events = ClusterEvents()
    waiting = asyncio.create_task(events.wait(wanted, 0.02))
    await asyncio.sleep(0)
    events.notify(happening)
    return await waiting


def test_a_change_wakes_those_who_wait_for_its_kind() -> None:
    assert asyncio.run(outcome_of(ClusterEvent.POD_REMOVED, ClusterEvent.POD_REMOVED))
    assert asyncio.run(outcome_of(ClusterEvent.NODE, ClusterEvent.NODE_UPDATED))
    assert asyncio.run(outcome_of(ClusterEvent.ANY, ClusterEvent.POD_ADDED))


def test_a_change_of_another_kind_wakes_nobody() -> None:
    assert not asyncio.run(outcome_of(ClusterEvent.NODE, ClusterEvent.POD_REMOVED))
    assert not asyncio.run(outcome_of(ClusterEvent.POD_REMOVED, ClusterEvent.POD_ADDED))


def test_a_change_wakes_all_who_wait_for_it() -> None:
    async def both() -> list[bool]:
        events = ClusterEvents()
        waiting = [asyncio.create_task(events.wait(ClusterEvent.ANY, 5)) for _ in range(2)]
        await asyncio.sleep(0)
        events.notify(ClusterEvent.NODE_ADDED)
        events.notify(ClusterEvent.NODE_ADDED)
        return await asyncio.gather(*waiting)

    assert asyncio.run(both()) == [True, True]


def test_a_change_before_the_wait_does_not_count() -> None:
    async def late() -> bool:
        events = ClusterEvents()
        events.notify(ClusterEvent.ANY)
        return await events.wait(ClusterEvent.ANY, 0.01)

    assert not asyncio.run(late())


def test_nobody_is_left_waiting_after_time_out_or_cancellation() -> None:
    async def left() -> int:
        events = ClusterEvents()
        await events.wait(ClusterEvent.ANY, 0.01)
        waiting = asyncio.create_task(events.wait(ClusterEvent.ANY, 5))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return len(events._waiting)

    assert asyncio.run(left()) == 0

import asyncio

from extender_service.cluster.state.changes import Change, Changes


async def outcome_of(wanted: Change, happening: Change) -> bool:
    """Whether somebody who waits for one kind of change hears of another before he gives up."""
    changes = Changes()
    waiting = asyncio.create_task(changes.wait(wanted, 0.02))
    await asyncio.sleep(0)
    changes.notify(happening)
    return await waiting


def test_a_change_wakes_those_who_wait_for_its_kind() -> None:
    assert asyncio.run(outcome_of(Change.POD_REMOVED, Change.POD_REMOVED))
    assert asyncio.run(outcome_of(Change.NODE, Change.NODE_UPDATED))
    assert asyncio.run(outcome_of(Change.ANY, Change.POD_ADDED))


def test_a_change_of_another_kind_wakes_nobody() -> None:
    assert not asyncio.run(outcome_of(Change.NODE, Change.POD_REMOVED))
    assert not asyncio.run(outcome_of(Change.POD_REMOVED, Change.POD_ADDED))


def test_a_change_wakes_all_who_wait_for_it() -> None:
    async def both() -> list[bool]:
        changes = Changes()
        waiting = [asyncio.create_task(changes.wait(Change.ANY, 5)) for _ in range(2)]
        await asyncio.sleep(0)
        changes.notify(Change.NODE_ADDED)
        changes.notify(Change.NODE_ADDED)
        return await asyncio.gather(*waiting)

    assert asyncio.run(both()) == [True, True]


def test_a_change_before_the_wait_does_not_count() -> None:
    async def late() -> bool:
        changes = Changes()
        changes.notify(Change.ANY)
        return await changes.wait(Change.ANY, 0.01)

    assert not asyncio.run(late())


def test_nobody_is_left_waiting_after_time_out_or_cancellation() -> None:
    async def left() -> int:
        changes = Changes()
        await changes.wait(Change.ANY, 0.01)
        waiting = asyncio.create_task(changes.wait(Change.ANY, 5))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return len(changes._waiting)

    assert asyncio.run(left()) == 0

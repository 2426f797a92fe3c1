import asyncio

from extender_service.cluster.state.changes import Change, Changes, ObjectChange

X = ("default", "x")
Y = ("default", "y")
NODE = Change.NODE_ADDED | Change.NODE_UPDATED
ANY = ~Change(0)


async def outcome_of(wanted: Change, happening: Change) -> bool:
    """Whether somebody who waits for one kind of change hears of another before he gives up."""
    changes = Changes()
    waiting = asyncio.create_task(changes.wait(wanted, 0.02))
    await asyncio.sleep(0)
    changes.notify(happening, X)
    return await waiting


def test_a_change_wakes_those_who_wait_for_its_kind() -> None:
    assert asyncio.run(outcome_of(Change.POD_REMOVED, Change.POD_REMOVED))
    assert asyncio.run(outcome_of(NODE, Change.NODE_UPDATED))
    assert asyncio.run(outcome_of(ANY, Change.POD_ADDED))


def test_a_change_of_another_kind_wakes_nobody() -> None:
    assert not asyncio.run(outcome_of(NODE, Change.POD_REMOVED))
    assert not asyncio.run(outcome_of(Change.POD_REMOVED, Change.POD_ADDED))


def test_a_change_wakes_all_who_wait_for_it() -> None:
    async def both() -> list[bool]:
        changes = Changes()
        waiting = [asyncio.create_task(changes.wait(ANY, 5)) for _ in range(2)]
        await asyncio.sleep(0)
        changes.notify(Change.NODE_ADDED, X)
        changes.notify(Change.NODE_ADDED, X)
        return await asyncio.gather(*waiting)

    assert asyncio.run(both()) == [True, True]


def test_a_change_before_the_wait_does_not_count() -> None:
    async def late() -> bool:
        changes = Changes()
        changes.notify(Change.NODE_ADDED, X)
        return await changes.wait(ANY, 0.01)

    assert not asyncio.run(late())


def test_nobody_is_left_waiting_after_time_out_or_cancellation() -> None:
    async def left() -> int:
        changes = Changes()
        await changes.wait(ANY, 0.01)
        await changes.wait_for({(Change.CLAIM, X)}, 0.01)
        waiting = [
            asyncio.create_task(changes.wait(ANY, 5)),
            asyncio.create_task(changes.wait_for({(Change.CLAIM, X), (Change.VOLUME, Y)}, 5)),
        ]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return len(changes._waiting) + len(changes._waiting_for)

    assert asyncio.run(left()) == 0


def test_a_change_of_an_object_wakes_those_alone_who_wait_for_that_object() -> None:
    async def woken_by(*happening: ObjectChange) -> list[str]:
        changes = Changes()
        wanted: dict[str, set[ObjectChange]] = {
            "claim x": {(Change.CLAIM, X)},
            "claim y": {(Change.CLAIM, Y)},
            "volume x": {(Change.VOLUME, X)},
            "both claims": {(Change.CLAIM, X), (Change.CLAIM, Y)},
        }
        waiting = {name: asyncio.create_task(changes.wait_for(each, 0.02)) for name, each in wanted.items()}
        await asyncio.sleep(0)
        for change, key in happening:
            changes.notify(change, key)
        return [name for name, task in waiting.items() if await task]

    assert asyncio.run(woken_by((Change.CLAIM, X))) == ["claim x", "both claims"]
    assert asyncio.run(woken_by((Change.CLAIM, X), (Change.CLAIM, Y))) == ["claim x", "claim y", "both claims"]
    assert asyncio.run(woken_by((Change.VOLUME, Y))) == []


def test_who_waits_for_a_kind_hears_of_every_object() -> None:
    async def heard() -> list[bool]:
        changes = Changes()
        waiting = [
            asyncio.create_task(changes.wait(Change.CLAIM, 5)),
            asyncio.create_task(changes.wait_for({(Change.CLAIM, X)}, 0.01)),
        ]
        await asyncio.sleep(0)
        changes.notify(Change.CLAIM, Y)
        return await asyncio.gather(*waiting)

    assert asyncio.run(heard()) == [True, False]

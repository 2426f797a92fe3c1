import asyncio

from extender_service.extender.idle import IdleWork


async def turns(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


def test_work_is_done_once_after_the_last_answer() -> None:
    done: list[str] = []

    async def run() -> None:
        idle = IdleWork(lambda: done.append("work"))
        idle.interrupt()
        assert not done
        idle.plan()
        assert not done
        await turns(20)

    asyncio.run(run())
    assert done == ["work"]


def test_a_call_that_comes_first_does_not_wait_for_it() -> None:
    done: list[str] = []

    async def run() -> None:
        idle = IdleWork(lambda: done.append("work"))
        for _ in range(3):
            idle.interrupt()
            idle.plan()
            await turns(1)
        idle.interrupt()
        await turns(20)
        assert not done
        idle.plan()
        await turns(20)

    asyncio.run(run())
    assert done == ["work"]

import asyncio

import pytest

from extender_service.kube.watching.interruption import Interruption


async def wait_in(interruption: Interruption) -> None:
    async with interruption:
        await asyncio.sleep(3600)


def test_what_waits_ends_with_the_first_error_that_is_given() -> None:
    async def main() -> None:
        interruption = Interruption()
        waiting = asyncio.create_task(wait_in(interruption))
        await asyncio.sleep(0)
        interruption.interrupt(ValueError("first"))
        interruption.interrupt(ValueError("second"))
        with pytest.raises(ValueError, match="first"):
            await waiting

    asyncio.run(main())


def test_what_is_over_or_has_not_begun_is_left_alone() -> None:
    async def main() -> None:
        interruption = Interruption()
        interruption.interrupt(ValueError("too early"))
        async with interruption:
            pass
        interruption.interrupt(ValueError("too late"))
        await asyncio.sleep(0.001)

    asyncio.run(main())


def test_a_task_that_is_cancelled_meanwhile_is_cancelled() -> None:
    async def main() -> None:
        interruption = Interruption()
        waiting = asyncio.create_task(wait_in(interruption))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())

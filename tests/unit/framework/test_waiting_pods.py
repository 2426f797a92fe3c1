import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from extender_service.framework.waiting_pods import WaitingPod
from tests.support.objects import make_pod

Run = Callable[[Coroutine[Any, Any, None]], None]


# uvloop makes no timer of a wait below a millisecond.
@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.0001, 30.0])
@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_the_first_wait_to_end_is_known_and_can_end_now(run: Run, seconds: float) -> None:
    async def wait() -> None:
        now = asyncio.get_running_loop().time()
        waiting = WaitingPod(make_pod("web"), "a", {"Long": 60.0, "Short": seconds, "Longer": 90.0})
        assert waiting.times_out_at == pytest.approx(now + seconds, abs=1.0)
        waiting.time_out()
        rejection = await waiting.wait()
        assert rejection is not None
        assert rejection.plugin == "Short"
        assert rejection.message.endswith("at plugin Short")

    run(wait())


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_the_wait_of_a_plugin_that_allowed_the_pod_does_not_count(run: Run) -> None:
    async def wait() -> None:
        now = asyncio.get_running_loop().time()
        waiting = WaitingPod(make_pod("web"), "a", {"Short": 30.0, "Long": 60.0})
        waiting.allow("Short")
        assert waiting.times_out_at == pytest.approx(now + 60, abs=1.0)
        waiting.allow("Long")
        assert await waiting.wait() is None

    run(wait())

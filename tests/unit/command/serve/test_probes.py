import asyncio

import httpx
import pytest

from extender_service.command.serve.listeners import Listeners
from extender_service.command.serve.probes import answering_at_start
from extender_service.observability.health import Health
from extender_service.serving.connection_limits import ConnectionLimits
from tests.support.serve_options import serve_options


@pytest.mark.parametrize("ports", [{}, {"healthz_port": 0}], ids=["one port", "a port for probes"])
def test_at_the_start_probes_are_answered_and_calls_hear_what_is_missing(ports: dict[str, int]) -> None:
    async def ask(listeners: Listeners) -> None:
        calls = listeners.urls["url"]
        probes = listeners.urls.get("probes_url", calls)
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            assert (await client.get(f"{probes}/livez")).status_code == 200
            ready = await client.get(f"{probes}/readyz")
            assert ready.status_code == 500
            assert "[-]api-server-release failed: no route" in ready.text
            filtered, bound, scored, preempted = [
                await client.post(f"{calls}/{verb}", json={}) for verb in ("filter", "bind", "prioritize", "preempt")
            ]
        error = "extender-service does not know the cluster well enough to decide: api-server-release no route"
        for answer in (filtered, bound):
            assert (answer.status_code, answer.json()["Error"]) == (200, error)
        for answer in (scored, preempted):
            assert (answer.status_code, answer.json()["Error"]) == (503, error)

    async def main() -> None:
        health = Health({"api-server-release": lambda: "no route"})
        with Listeners(serve_options([], **ports)) as listeners:
            for _ in range(2):  # who comes next listens on the same sockets
                async with answering_at_start(listeners, ConnectionLimits(), health):
                    await ask(listeners)

    asyncio.run(main())

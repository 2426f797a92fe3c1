import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from extender_service.command.background import background
from extender_service.command.emulation import EmulationOptions
from extender_service.command.server_release import rules_for_server, warn_of_upgrade
from extender_service.command.start_error import StartError
from extender_service.config.rules import Rules
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.observability.health import Health, first_problem
from extender_service.seams import THIS_MACHINE, SignalHandler
from tests.support.servers.http_server import Request, Response, http_server


@asynccontextmanager
async def without_probes(_: Health) -> AsyncIterator[None]:
    yield


def rules(options: EmulationOptions, statuses: list[int]) -> Rules | None:
    async def handler(_: Request, response: Response) -> None:
        await response.send_json(statuses.pop(0), {"major": "1", "minor": "34+"}, {})

    async def main() -> Rules | None:
        async with http_server(handler) as url:
            return await rules_for_server(options, load_credentials(master=url), without_probes, THIS_MACHINE)

    return asyncio.run(main())


def test_the_api_server_decides_once_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        followed = rules(EmulationOptions(), [503, 200])
    assert followed is not None
    assert followed.release == "1.34"
    [record] = caplog.records
    assert record.message.startswith("waiting for the release of the API server; --emulated-version says which")


def test_a_gate_that_its_release_does_not_know_is_refused_with_the_release() -> None:
    with pytest.raises(StartError, match=r"NodeDeclaredFeatures in 1\.34; .* have it\nkube-scheduler 1\.34, whose"):
        rules(EmulationOptions(gates={"NodeDeclaredFeatures": True}), [200])


def test_it_is_not_asked_if_the_options_say_which_release() -> None:
    followed = rules(EmulationOptions(33), [])
    assert followed is not None
    assert followed.release == "1.33"


def test_the_process_ends_if_it_is_told_so_while_the_probes_of_the_start_end() -> None:
    asked = asyncio.Event()

    async def handler(_: Request, response: Response) -> None:
        await asked.wait()
        await response.send_json(200, {"major": "1", "minor": "34"}, {})

    @asynccontextmanager
    async def probes(_: Health) -> AsyncIterator[None]:
        asked.set()
        yield
        os.kill(os.getpid(), signal.SIGTERM)  # a client that is slow may hold the server up for a moment
        await asyncio.sleep(0.1)

    async def main() -> Rules | None:
        async with http_server(handler) as url:
            return await rules_for_server(EmulationOptions(), load_credentials(master=url), probes, THIS_MACHINE)

    assert asyncio.run(main()) is None


def test_a_second_signal_ends_the_process_at_once_also_as_the_first_of_a_container() -> None:
    set_to_default: list[int] = []

    def set_signal_handler(number: int, handler: SignalHandler) -> SignalHandler:
        assert handler is signal.SIG_DFL
        set_to_default.append(number)
        return handler

    async def silence(_: Request, __: Response) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(60)

    async def main() -> Rules | None:
        machine = replace(THIS_MACHINE, set_signal_handler=set_signal_handler)
        async with http_server(silence) as url:
            return await rules_for_server(EmulationOptions(), load_credentials(master=url), without_probes, machine)

    assert asyncio.run(main()) is None
    assert signal.SIGTERM in set_to_default


def test_probes_are_answered_while_the_api_server_says_nothing_until_the_process_is_told_to_end() -> None:
    found: list[Health] = []

    async def silence(_: Request, __: Response) -> None:
        await asyncio.sleep(60)

    @asynccontextmanager
    async def probes(health: Health) -> AsyncIterator[None]:
        found.append(health)
        os.kill(os.getpid(), signal.SIGTERM)
        yield
        found.append(health)

    async def main() -> Rules | None:
        async with http_server(silence) as url:
            return await rules_for_server(EmulationOptions(), load_credentials(master=url), probes, THIS_MACHINE)

    assert asyncio.run(main()) is None
    health, after = found
    assert after is health
    assert first_problem(health.liveness) is None
    assert first_problem(health.readiness) == "api-server-release no answer yet"
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_another_release_of_the_api_server_is_logged_when_it_appears(caplog: pytest.LogCaptureFixture) -> None:
    minors = ["34+", "35", "35", None, "35", "34", "39", "40", "37"]

    async def main() -> None:
        all_answered = asyncio.Event()

        async def handler(_: Request, response: Response) -> None:
            minor = minors.pop(0) if minors else None
            if minor is None:
                await response.send_json(503, {}, {})
            else:
                await response.send_json(200, {"major": "1", "minor": minor}, {})
            if not minors and minor is None:
                all_answered.set()

        async with (
            http_server(handler) as url,
            KubeClient(load_credentials(master=url)) as client,
            background(warn_of_upgrade(EmulationOptions(), "1.34", client, seconds=0.001)),
            asyncio.timeout(20),
        ):
            await all_answered.wait()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert [(vars(each)["server"], vars(each)["emulated_version"]) for each in caplog.records] == [
        ("1.35", "1.34"),
        ("1.39", "1.34"),
    ]


def test_no_upgrade_is_looked_for_if_the_options_say_which_release_to_follow() -> None:
    async def main() -> None:
        async with KubeClient(load_credentials(master="http://127.0.0.1:1")) as client, asyncio.timeout(20):
            await warn_of_upgrade(EmulationOptions(34), "1.34", client, seconds=0.0)

    asyncio.run(main())

import asyncio
import logging

import pytest

from extender_service.command.emulation import EmulationOptions
from extender_service.command.server_release import rules_for_server
from extender_service.config.rules import Rules
from extender_service.kube.credentials.lookup import load_credentials
from tests.support.http_server import Request, Response, http_server


def rules(options: EmulationOptions, statuses: list[int]) -> Rules:
    async def handler(_: Request, response: Response) -> None:
        await response.send_json(statuses.pop(0), {"major": "1", "minor": "34+"}, {})

    async def main() -> Rules:
        async with http_server(handler) as url:
            return await rules_for_server(options, load_credentials(master=url))

    return asyncio.run(main())


def test_the_api_server_decides_once_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert rules(EmulationOptions(), [503, 200]).release == "1.34"
    assert [record.message for record in caplog.records] == ["waiting for the release of the API server"]


def test_it_is_not_asked_if_the_options_say_which_release() -> None:
    assert rules(EmulationOptions(33), []).release == "1.33"

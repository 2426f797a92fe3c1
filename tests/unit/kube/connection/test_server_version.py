import asyncio
from typing import Any

import pytest

from extender_service.kube.api_errors import KubeError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.connection.server_version import server_minor
from extender_service.kube.credentials.lookup import load_credentials
from tests.support.servers.http_server import Request, Response, http_server


def minor_of(answer: Any, status: int = 200) -> int:
    async def handler(request: Request, response: Response) -> None:
        assert (request.method, request.path) == ("GET", "/version")
        await response.send_json(status, answer, {})

    async def main() -> int:
        async with http_server(handler) as url, KubeClient(load_credentials(master=url)) as client:
            return await server_minor(client)

    return asyncio.run(main())


def test_providers_add_to_the_minor() -> None:
    assert minor_of({"major": "1", "minor": "34", "gitVersion": "v1.34.4"}) == 34
    assert minor_of({"major": "1", "minor": "33+", "gitVersion": "v1.33.2-gke.100"}) == 33


def test_an_api_server_that_emulates_a_release_is_of_that_release() -> None:
    own = {"major": "1", "minor": "37", "gitVersion": "v1.37.2"}
    assert minor_of({**own, "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMinor": "35"}) == 36
    assert minor_of({**own, "emulationMajor": "1", "emulationMinor": "37", "minCompatibilityMinor": "36"}) == 37
    assert minor_of({**own, "emulationMajor": "", "emulationMinor": ""}) == 37


@pytest.mark.parametrize("answer", [{}, {"major": "1"}, {"major": "2", "minor": "1"}, {"major": "1", "minor": "x"}])
def test_an_answer_without_a_version_is_an_error(answer: Any) -> None:
    with pytest.raises(KubeError, match="the answer has no version of Kubernetes"):
        minor_of(answer)


def test_a_refusal_is_an_error() -> None:
    with pytest.raises(KubeError, match="401"):
        minor_of({"message": "Unauthorized"}, 401)

import asyncio
from typing import Any

import pytest

from extender_service.kube.api_errors import ApiError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.writing.leases import lease_holder
from tests.support.http_server import Request, Response, http_server


def holder(status: int, body: Any) -> str:
    """Who holds the lease locks/web, by what the API server answers."""

    async def handler(request: Request, response: Response) -> None:
        assert request.path == "/apis/coordination.k8s.io/v1/namespaces/locks/leases/web"
        await response.send_json(status, body, {})

    async def main() -> str:
        async with http_server(handler) as url, KubeClient(load_credentials(master=url)) as client:
            return await lease_holder(client, "locks", "web")

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"holderIdentity": "pair-a_1", "renewTime": "2024-01-01T00:00:00.000000Z"}, "pair-a_1"),
        ({"holderIdentity": ""}, ""),
        ({"holderIdentity": None}, ""),
        (None, ""),
    ],
)
def test_a_lease_says_who_holds_it(spec: Any, says: str) -> None:
    assert holder(200, {"metadata": {"name": "web"}, "spec": spec}) == says


def test_nobody_holds_a_lease_that_does_not_exist() -> None:
    assert holder(404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}) == ""


def test_a_refusal_is_an_error() -> None:
    with pytest.raises(ApiError, match="not for you"):
        holder(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "not for you"})

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.reviews.delegated_reviews import client_authorities, review_path, review_token
from tests.support.servers.http_server import Request, Response, http_server


def asked(call: Callable[[KubeClient], Awaitable[Any]], status: int, body: Any) -> tuple[Request, Any]:
    """What is asked of the API server, and what its answer is taken for."""
    requests: list[Request] = []

    async def handler(request: Request, response: Response) -> None:
        requests.append(request)
        await response.send_json(status, body)

    async def main() -> Any:
        async with http_server(handler) as url, KubeClient(load_credentials(master=url)) as client:
            return await call(client)

    answer = asyncio.run(main())
    return requests[0], answer


def test_a_token_is_reviewed() -> None:
    user = {"username": "ann", "uid": "1", "groups": ["ops"], "extra": {"k": ["v"]}}
    body = {"status": {"authenticated": True, "user": user}}
    request, status = asked(lambda client: review_token(client, "secret"), 201, body)
    assert (request.method, request.path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
    assert json.loads(request.body)["spec"] == {"token": "secret"}
    assert status.authenticated
    assert (status.user.username, status.user.groups, status.user.extra) == ("ann", ("ops",), {"k": ("v",)})


def test_a_token_that_is_not_valid_has_no_user() -> None:
    _, status = asked(lambda client: review_token(client, "x"), 201, {"status": {"error": "expired"}})
    assert not status.authenticated


def test_access_to_a_path_is_reviewed() -> None:
    subject = {"user": "ann", "groups": ["ops"]}
    request, status = asked(
        lambda client: review_path(client, subject, "get", "/metrics"), 201, {"status": {"allowed": True}}
    )
    assert request.path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert json.loads(request.body)["spec"] == {
        **subject,
        "nonResourceAttributes": {"verb": "get", "path": "/metrics"},
    }
    assert status.allowed


def test_authorities_are_read_from_the_config_map() -> None:
    request, data = asked(client_authorities, 200, {"data": {"client-ca-file": "PEM"}})
    assert request.path == "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    assert data == {"client-ca-file": "PEM"}
    assert asked(client_authorities, 404, {"kind": "Status", "code": 404})[1] == {}

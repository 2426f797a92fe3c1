import asyncio
import json
from typing import Any

import pytest

from extender_service.kube.api_errors import ApiError
from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.kube.reviews.access_reviews import UncertainReviewError, may_bind_pods
from tests.support.servers.http_server import Request, Response, http_server


def review(answer: Any, *, status: int = 201, namespace: str = "") -> tuple[bool, Any]:
    """Return whether pods may be bound when the API server answers so, and what was asked."""
    asked: list[Any] = []

    async def handler(request: Request, response: Response) -> None:
        assert (request.method, request.path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
        asked.append(json.loads(request.body))
        await response.send_json(status, answer, {})

    async def main() -> bool:
        async with http_server(handler) as url, KubeClient(load_credentials(master=url)) as client:
            return await may_bind_pods(client, namespace)

    return asyncio.run(main()), asked[0]


def test_a_review_asks_for_the_right_to_create_bindings() -> None:
    allowed, asked = review({"status": {"allowed": True}}, namespace="shop")
    assert allowed
    assert asked == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "namespace": "shop",
                "verb": "create",
                "version": "v1",
                "resource": "pods",
                "subresource": "binding",
            }
        },
    }


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"allowed": False}, False),
        ({"allowed": False, "denied": True, "reason": "no"}, False),
        ({"allowed": True, "evaluationError": 'role "x" not found'}, True),
    ],
)
def test_the_answer_says_whether_pods_may_be_bound(status: Any, expected: bool) -> None:
    assert review({"status": status})[0] is expected


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"status": {"allowed": False, "evaluationError": "the webhook timed out"}}, "the webhook timed out"),
        ({"status": {}}, "has no status"),
        ({"status": None}, "has no status"),
        ({}, "has no status"),
    ],
)
def test_an_answer_that_does_not_say_is_not_taken_for_a_no(answer: Any, why: str) -> None:
    with pytest.raises(UncertainReviewError, match=why):
        review(answer)


@pytest.mark.parametrize("status", [403, 404])
def test_a_review_that_is_forbidden_or_absent_is_an_error(status: int) -> None:
    with pytest.raises(ApiError):
        review({"kind": "Status", "code": status}, status=status)

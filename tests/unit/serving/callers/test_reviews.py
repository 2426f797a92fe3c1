import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender_service.kube.connection.client import KubeClient
from extender_service.kube.credentials.lookup import load_credentials
from extender_service.serving.callers import reviews
from extender_service.serving.callers.authorization import Access, ReviewError
from extender_service.serving.callers.reviews import Reviews
from extender_service.serving.callers.users import UnauthenticatedError, UserInfo
from tests.support.event_loop import in_event_loop
from tests.support.servers.http_server import Request, Response, http_server

ANN = UserInfo("ann", "1", ("ops",), (("k", ("v",)),))


class ApiServer:
    """Answers each review with `status`, once it `answers`."""

    def __init__(self, code: int = 201, **status: Any) -> None:
        self._answer = code, {"metadata": {}, "status": status}
        self.asked: list[dict[str, Any]] = []
        self.answers = asyncio.Event()
        self.answers.set()

    async def __call__(self, request: Request, response: Response) -> None:
        self.asked.append(json.loads(request.body)["spec"])
        await self.answers.wait()
        await response.send_json(*self._answer)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[KubeClient]:
        async with asyncio.timeout(20), http_server(self) as url, KubeClient(load_credentials(master=url)) as client:
            yield client

    async def is_asked(self, times: int) -> None:
        while len(self.asked) < times:
            await asyncio.sleep(0.001)


@in_event_loop
async def test_a_token_has_the_user_whom_the_api_server_names() -> None:
    user = {"username": "ann", "uid": "1", "groups": ["ops"], "extra": {"k": ["v"]}}
    async with ApiServer(authenticated=True, user=user).client() as client:
        assert await Reviews(1).user_of(client, "secret") == ANN
    async with ApiServer(authenticated=False).client() as client:
        assert await Reviews(1).user_of(client, "secret") is None


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ((201, {"authenticated": False, "error": "the webhook hangs"}), "says of the token: the webhook hangs"),
        ((403, {}), "the token cannot be reviewed: "),
    ],
)
def test_a_token_about_which_nothing_can_be_found_out_is_an_error(server: tuple[int, Any], why: str) -> None:
    async def main() -> None:
        async with ApiServer(server[0], **server[1]).client() as client:
            await Reviews(1).user_of(client, "secret")

    with pytest.raises(UnauthenticatedError, match=why):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("status", "access"),
    [
        ({"allowed": True, "reason": "by a role"}, Access(allowed=True, reason="by a role")),
        ({"allowed": True, "denied": True}, Access(allowed=False)),
        ({"allowed": False}, Access(allowed=False)),
    ],
)
@in_event_loop
async def test_a_user_may_do_what_the_api_server_allows_and_does_not_deny(
    status: dict[str, Any], access: Access
) -> None:
    server = ApiServer(**status)
    async with server.client() as client:
        assert await Reviews(1).access_of(client, ANN, "get", "/metrics") == access
    subject = {"user": "ann", "uid": "1", "groups": ["ops"], "extra": {"k": ["v"]}}
    assert server.asked == [{**subject, "nonResourceAttributes": {"verb": "get", "path": "/metrics"}}]


def test_a_review_of_access_that_fails_is_an_error() -> None:
    async def main() -> None:
        async with ApiServer(403).client() as client:
            await Reviews(1).access_of(client, ANN, "get", "/metrics")

    with pytest.raises(ReviewError):
        asyncio.run(main())


@in_event_loop
async def test_only_so_many_callers_wait_for_the_api_server() -> None:
    server, under_way = ApiServer(authenticated=False), Reviews(2)
    async with server.client() as client:
        server.answers.clear()
        first = asyncio.create_task(under_way.user_of(client, "a"))
        await server.is_asked(1)
        with under_way.waiting_for_token():
            with pytest.raises(UnauthenticatedError, match="2 other callers wait for the API server's answer"):
                await under_way.user_of(client, "b")
            with pytest.raises(UnauthenticatedError), under_way.waiting_for_token():
                pass
            with pytest.raises(ReviewError):
                await under_way.access_of(client, ANN, "get", "/metrics")
        server.answers.set()
        assert await first is None
        assert [await under_way.user_of(client, token) for token in "cd"] == [None, None]
    assert [each["token"] for each in server.asked] == ["a", "c", "d"]


@in_event_loop
async def test_a_review_that_takes_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviews, "ANSWER_SECONDS", 0.05)
    server = ApiServer()
    async with server.client() as client:
        server.answers.clear()
        with pytest.raises(ReviewError, match=r"took longer than 0\.05 s to answer"):
            await Reviews(1).access_of(client, ANN, "get", "/metrics")
        server.answers.set()

import asyncio
import logging

import httpx
import pytest
from starlette.applications import Starlette
from starlette.types import Message

from extender_service.serving.callers import guarded_app
from extender_service.serving.callers.authentication import Authenticator, ClientAuthorities
from extender_service.serving.callers.authorization import Access, Authorizer, ReviewError
from extender_service.serving.callers.guarded_app import require_authorization
from extender_service.serving.callers.peer_certificates import PeerCertificate
from extender_service.serving.callers.users import UserInfo
from extender_service.serving.refusals import Refusals
from extender_service.serving.scope import HUNG_UP
from tests.support.clock import Clock


async def review_token(token: str) -> UserInfo | None:
    return UserInfo("ann") if token == "good" else None


async def review_access(_user: UserInfo, _verb: str, _path: str) -> Access:
    raise ReviewError("the API server does not answer")


@pytest.mark.parametrize(
    ("token", "status", "reason", "line"),
    [
        ("bad", 401, "caller", "refused a request: it is not known who calls: invalid bearer token"),
        (
            "good",
            500,
            "review",
            "refused a request: cannot find out whether the caller may do this: the API server does not answer",
        ),
    ],
)
def test_a_flood_of_strangers_does_not_fill_the_log(
    token: str, status: int, reason: str, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    refusals = Refusals(clock)
    authenticator = Authenticator(review_token, cache_seconds=10, clock=clock)
    authorizer = Authorizer(review_access, open_paths=[], allowed_seconds=10, denied_seconds=10, clock=clock)
    app = require_authorization(Starlette(), authenticator, authorizer, refusals)

    async def main() -> None:
        transport = httpx.ASGITransport(app)
        headers = {"authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="https://a.test", headers=headers) as client:
            for number in range(50):
                assert (await client.get(f"/metrics/{number}")).status_code == status

    with caplog.at_level(logging.DEBUG, "extender_service"):
        asyncio.run(main())
    assert caplog.messages == [line]
    assert refusals.counts[reason] == 50


def test_the_api_server_is_asked_about_the_user_whom_a_proxy_names_in_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = PeerCertificate("front-proxy", (), frozenset([b"proxies"]))
    monkeypatch.setattr(guarded_app, "peer_certificate", lambda _: proxy)
    clock = Clock()
    authenticator = Authenticator(None, cache_seconds=10, clock=clock)
    authenticator.authorities = ClientAuthorities(proxies=frozenset([b"proxies"]))
    reviewed: list[UserInfo] = []

    async def review(user: UserInfo, _verb: str, _path: str) -> Access:
        reviewed.append(user)
        return Access(allowed=True)

    authorizer = Authorizer(review, open_paths=[], allowed_seconds=10, denied_seconds=10, clock=clock)
    app = require_authorization(Starlette(), authenticator, authorizer, Refusals(clock))
    headers = [
        (b"X-Remote-User", "jürgen".encode()),
        (b"X-Remote-Group", "größe".encode()),
        (b"X-Remote-Group", "größe".encode("latin-1")),
        (b"X-Remote-Extra-Ort", "Köln".encode()),
    ]

    async def main() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="https://a.test") as client:
            await client.get("/metrics", headers=headers)

    asyncio.run(main())
    groups = ("größe", "gr\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}e", "system:authenticated")
    assert reviewed == [UserInfo("jürgen", groups=groups, extra=(("ort", ("Köln",)),))]


def test_a_caller_that_has_hung_up_waits_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_app, "_LOOK_SECONDS", 0.01)
    gave_up: list[bool] = []
    hung_up: list[bool] = []

    async def hanging(_user: UserInfo, _verb: str, _path: str) -> Access:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            gave_up.append(bool(hung_up))
            raise
        raise AssertionError

    async def send(_: object) -> None:
        pass

    async def receive() -> Message:
        return {"type": "http.request"}

    async def main() -> None:
        clock = Clock()
        authorizer = Authorizer(hanging, open_paths=[], allowed_seconds=10, denied_seconds=10, clock=clock)
        authenticator = Authenticator(None, cache_seconds=10, clock=clock)
        app = require_authorization(Starlette(), authenticator, authorizer, Refusals(clock))
        scope = {"type": "http", "method": "GET", "path": "/metrics", "headers": [], HUNG_UP: lambda: bool(hung_up)}
        asyncio.get_running_loop().call_later(0.05, hung_up.append, True)
        async with asyncio.timeout(5):
            await app(scope, receive, send)
        await asyncio.sleep(0)

    asyncio.run(main())
    assert gave_up == [True]

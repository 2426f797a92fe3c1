import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from extender_service.serving.callers.authentication import Authenticator, ClientAuthorities, ProxyHeaders
from extender_service.serving.callers.peer_certificates import PeerCertificate
from extender_service.serving.callers.users import ANONYMOUS, UnauthenticatedError, UserInfo
from tests.support.clock import Clock

CLIENT_CA, PROXY_CA, OTHER_CA = b"client", b"proxy", b"other"
READER = UserInfo("reader", "uid", ("team",), (("scope", ("a", "b")),))


class Tokens:
    """Reviews tokens, and counts that."""

    def __init__(self) -> None:
        self.reviewed: list[str] = []
        self.is_down = False

    async def __call__(self, token: str) -> UserInfo | None:
        self.reviewed.append(token)
        if self.is_down:
            raise UnauthenticatedError("nobody answers")
        return READER if token == "good" else None


class Gate:
    def __init__(self, *, has_reviews: bool = True, names: Sequence[str] = ()) -> None:
        self.tokens = Tokens()
        self.clock = Clock()
        review = self.tokens if has_reviews else None
        self.authenticator = Authenticator(review, cache_seconds=10, clock=self.clock)
        headers = ProxyHeaders(tuple(names))
        self.authenticator.authorities = ClientAuthorities(frozenset([CLIENT_CA]), frozenset([PROXY_CA]), headers)

    def user(self, *headers: tuple[str, str], certificate: PeerCertificate | None = None) -> UserInfo:
        return asyncio.run(self.authenticator.authenticate(headers, certificate))


def of(authority: bytes, name: str = "someone", *organizations: str) -> PeerCertificate:
    return PeerCertificate(name, organizations, frozenset([b"leaf", authority]))


def bearer(token: str) -> tuple[str, str]:
    return "authorization", f"Bearer {token}"


def test_a_caller_without_credentials_is_anonymous() -> None:
    assert Gate().user() == ANONYMOUS
    assert Gate().user(("authorization", "Basic abc")) == ANONYMOUS
    assert Gate().user(("x-remote-user", "admin")) == ANONYMOUS


def test_a_token_names_its_user() -> None:
    assert Gate().user(bearer("good")) == UserInfo("reader", "uid", ("team", "system:authenticated"), READER.extra)
    with pytest.raises(UnauthenticatedError, match="invalid bearer token"):
        Gate().user(bearer("bad"))


def test_without_an_api_server_tokens_do_not_count() -> None:
    assert Gate(has_reviews=False).user(bearer("good")) == ANONYMOUS


def test_answers_about_tokens_count_for_ten_seconds_and_failures_do_not() -> None:
    gate = Gate()
    for _ in range(2):
        gate.user(bearer("good"))
        with pytest.raises(UnauthenticatedError):
            gate.user(bearer("bad"))
    assert gate.tokens.reviewed == ["good", "bad"]
    gate.clock.pass_seconds(10)
    gate.tokens.is_down = True
    for _ in range(2):
        with pytest.raises(UnauthenticatedError, match="nobody answers"):
            gate.user(bearer("good"))
    assert gate.tokens.reviewed == ["good", "bad", "good", "good"]


def test_a_review_of_a_token_is_shared_and_its_answer_is_kept_though_its_callers_have_hung_up() -> None:
    class SlowTokens(Tokens):
        async def __call__(self, token: str) -> UserInfo | None:
            await asyncio.sleep(0.01)
            return await super().__call__(token)

    async def main() -> None:
        tokens = SlowTokens()
        authenticator = Authenticator(tokens, cache_seconds=10, clock=Clock())
        asked = [asyncio.create_task(authenticator.authenticate([bearer("good")], None)) for _ in range(2)]
        await asyncio.sleep(0)
        for each in asked:
            each.cancel()
        while not tokens.reviewed:
            await asyncio.sleep(0.001)
        assert (await authenticator.authenticate([bearer("good")], None)).name == "reader"
        assert tokens.reviewed == ["good"]

    asyncio.run(main())


def test_a_certificate_names_its_user_and_groups() -> None:
    gate = Gate()
    assert gate.user(certificate=of(CLIENT_CA, "ann", "ops")) == UserInfo("ann", groups=("ops", "system:authenticated"))
    # It comes before a token.
    assert gate.user(bearer("bad"), certificate=of(CLIENT_CA, "ann")).name == "ann"


def test_a_certificate_of_no_authority_that_counts_is_no_user_but_a_token_beside_it_is() -> None:
    with pytest.raises(UnauthenticatedError, match="of no authority"):
        Gate().user(certificate=of(OTHER_CA))
    assert Gate().user(bearer("good"), certificate=of(OTHER_CA)).name == "reader"


def test_a_proxy_names_the_user_in_headers() -> None:
    headers = [
        ("x-remote-user", "ann"),
        ("x-remote-group", "ops"),
        ("x-remote-group", "dev"),
        ("x-remote-extra-acme%2fteam", "blue"),
    ]
    user = Gate(names=["front-proxy"]).user(*headers, certificate=of(PROXY_CA, "front-proxy"))
    assert user == UserInfo("ann", groups=("ops", "dev", "system:authenticated"), extra=(("acme/team", ("blue",)),))


def test_a_proxy_names_no_group_by_an_empty_header() -> None:
    headers = [("x-remote-user", "ann"), ("x-remote-group", ""), ("x-remote-group", "ops")]
    assert Gate().user(*headers, certificate=of(PROXY_CA)).groups == ("ops", "system:authenticated")


def test_a_proxy_may_write_the_key_of_an_extra_in_several_ways() -> None:
    headers = [
        ("x-remote-user", "ann"),
        ("x-remote-extra-acme%2fteam", "blue"),
        ("x-remote-extra-acm%65%2fteam", "red"),
        ("x-remote-extra-acme%2fteam", "green"),
    ]
    assert Gate().user(*headers, certificate=of(PROXY_CA)).extra == (("acme/team", ("blue", "green", "red")),)


def test_the_key_of_an_extra_with_a_malformed_escape_is_taken_as_it_is() -> None:
    headers = [("x-remote-user", "ann"), ("x-remote-extra-a%2fb%zz", "blue")]
    assert Gate().user(*headers, certificate=of(PROXY_CA)).extra == (("a%2fb%zz", ("blue",)),)


def test_a_proxy_gives_the_uid_only_in_headers_that_are_configured() -> None:
    headers = [("x-remote-user", "ann"), ("x-remote-uid", "7"), ("x-other-uid", "8"), ("x-empty-uid", "")]
    for names, uid in ((), ""), (("x-empty-uid", "x-remote-uid", "x-other-uid"), "7"):
        gate = Gate()
        authorities = gate.authenticator.authorities
        gate.authenticator.authorities = replace(authorities, proxy_headers=ProxyHeaders(uid=names))
        assert gate.user(*headers, certificate=of(PROXY_CA, "front-proxy")).uid == uid


@pytest.mark.parametrize("certificate", [of(CLIENT_CA, "front-proxy"), of(PROXY_CA, "other")])
def test_headers_of_others_do_not_count(certificate: PeerCertificate) -> None:
    gate = Gate(names=["front-proxy"])
    if certificate.is_of(frozenset([CLIENT_CA])):
        assert gate.user(("x-remote-user", "admin"), certificate=certificate).name == "front-proxy"
    else:
        with pytest.raises(UnauthenticatedError):
            gate.user(("x-remote-user", "admin"), certificate=certificate)

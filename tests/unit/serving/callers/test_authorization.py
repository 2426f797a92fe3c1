import asyncio

import pytest

from extender_service.serving.callers.authorization import Access, Authorizer, ReviewError
from extender_service.serving.callers.users import ANONYMOUS, UserInfo
from tests.support.clock import Clock

ANN, BOB, ROOT = UserInfo("ann"), UserInfo("bob"), UserInfo("root", groups=("system:masters",))


class Gate:
    def __init__(self, *open_paths: str, has_reviews: bool = True) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.is_down = False
        self.clock = Clock()
        self.authorizer = Authorizer(
            self.review if has_reviews else None,
            open_paths=open_paths or ("/healthz", "/readyz", "/livez"),
            allowed_seconds=10,
            denied_seconds=5,
            clock=self.clock,
        )

    async def review(self, user: UserInfo, verb: str, path: str) -> Access:
        self.asked.append((user.name, verb, path))
        if self.is_down:
            raise ReviewError("the API server does not answer")
        return Access(user == ANN, "" if user == ANN else "no rule")

    def may(self, user: UserInfo, path: str = "/metrics", verb: str = "get") -> Access:
        return asyncio.run(self.authorizer.may(user, verb, path))


def test_the_api_server_is_asked() -> None:
    gate = Gate()
    assert gate.may(ANN).allowed
    assert gate.may(BOB) == Access(allowed=False, reason="no rule")
    assert gate.asked == [("ann", "get", "/metrics"), ("bob", "get", "/metrics")]


def test_what_is_open_and_who_may_do_all_need_no_question() -> None:
    gate = Gate()
    assert gate.may(ANONYMOUS, "/healthz").allowed
    assert gate.may(ROOT).allowed
    assert gate.asked == []
    assert not gate.may(ANONYMOUS, "/healthz/ping").allowed
    assert Gate("metrics*").may(ANONYMOUS, "/metrics/resources").allowed
    assert not Gate("/metrics").may(ANONYMOUS, "/metrics/resources").allowed


def test_without_an_api_server_the_rest_is_closed() -> None:
    gate = Gate(has_reviews=False)
    assert not gate.may(ANN).allowed
    assert gate.may(ANN, "/livez").allowed


def test_answers_count_for_their_time_and_failures_do_not() -> None:
    gate = Gate()
    for seconds in (0, 4, 2, 5):
        gate.clock.pass_seconds(seconds)
        gate.may(ANN)
        gate.may(BOB)
    assert [name for name, _, _ in gate.asked] == ["ann", "bob", "bob", "ann", "bob"]
    gate.clock.pass_seconds(20)
    gate.is_down = True
    for _ in range(2):
        with pytest.raises(ReviewError):
            gate.may(ANN)
    assert len(gate.asked) == 7


def test_another_verb_or_path_is_another_question() -> None:
    gate = Gate()
    for verb, path in (("get", "/metrics"), ("post", "/metrics"), ("get", "/configz")):
        gate.may(ANN, path, verb)
    assert len(gate.asked) == 3


def test_many_callers_take_bounded_memory() -> None:
    gate = Gate()
    for number in range(6000):
        gate.may(UserInfo(f"user-{number}", groups=("g" * 500,)))
    assert len(gate.authorizer._known) <= 4096
    assert gate.authorizer._known.size_bytes <= 4 << 20

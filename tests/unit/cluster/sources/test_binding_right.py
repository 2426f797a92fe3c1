import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from extender_service.cluster.sources.binding_right import MISSING, BindingRight
from extender_service.cluster.state.cluster import Cluster
from extender_service.kube.api_errors import ApiError, ApiStatus, UnreachableError
from extender_service.kube.credentials.errors import CredentialsError
from extender_service.kube.reviews.access_reviews import UncertainReviewError
from extender_service.kube.types.core import ObjectMeta
from extender_service.kube.types.workloads import Namespace
from tests.support import virtual_time
from tests.support.objects import make_pod

# What the API server answers: yes, no, an error, or a no after so many seconds.
Answer = bool | float | Exception


class Reviewer:
    """The API server's part: `answer` is about all namespaces, `by_namespace` about some; `asked` has the times."""

    def __init__(self, answer: Answer, **by_namespace: Answer) -> None:
        self.answer = answer
        self.by_namespace = by_namespace
        self.asked: list[tuple[float, str]] = []

    async def __call__(self, namespace: str) -> bool:
        self.asked.append((virtual_time.time(), namespace))
        answer = self.by_namespace.get(namespace, False) if namespace else self.answer
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, float):
            await asyncio.sleep(answer)
            return False
        return answer


def follow(
    reviewer: Reviewer, check: Callable[[BindingRight], Awaitable[None]], cluster: Cluster | None = None
) -> None:
    """Follow the right, in virtual time, while `check` runs."""

    async def main() -> None:
        right = BindingRight(reviewer, cluster or Cluster())
        assert right.problem() == "it is not known yet whether pods may be bound"
        following = asyncio.create_task(right.follow())
        await check(right)
        following.cancel()

    virtual_time.run(main())


def problem_after(seconds: float, reviewer: Reviewer, cluster: Cluster | None = None) -> str | None:
    problems = []

    async def check(right: BindingRight) -> None:
        await asyncio.sleep(seconds)
        problems.append(right.problem())

    follow(reviewer, check, cluster)
    return problems[0]


def test_the_right_is_asked_about_once_where_it_is_there() -> None:
    reviewer = Reviewer(True)
    assert problem_after(3600, reviewer) is None
    assert reviewer.asked == [(0.0, "")]


def test_a_missing_right_is_reported_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    assert problem_after(300, Reviewer(False)) == MISSING
    assert [record.getMessage() for record in caplog.records] == [f"not ready, as no pod can be bound: {MISSING}"]


def test_a_right_that_is_granted_later_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reviewer = Reviewer(False)

    async def check(right: BindingRight) -> None:
        await asyncio.sleep(60)
        assert right.problem() == MISSING
        reviewer.answer = True
        await asyncio.sleep(12)
        assert right.problem() is None

    follow(reviewer, check)
    assert caplog.messages[-1] == "pods may be bound"


def test_a_right_that_is_taken_away_is_noticed_by_a_refused_binding() -> None:
    reviewer = Reviewer(True)

    async def check(right: BindingRight) -> None:
        await asyncio.sleep(60)
        reviewer.answer = False
        right.doubt()
        await asyncio.sleep(0.1)
        assert right.problem() == MISSING

    follow(reviewer, check)


def test_bindings_that_admission_refuses_leave_it_ready_and_are_asked_about_at_most_every_second() -> None:
    reviewer = Reviewer(True)

    async def check(right: BindingRight) -> None:
        for _ in range(1000):
            await asyncio.sleep(0.01)
            assert right.problem() is None
            right.doubt()

    follow(reviewer, check)
    assert len(reviewer.asked) <= 11


@pytest.mark.parametrize(
    "error",
    [
        ApiError(ApiStatus(403, "Forbidden", "cannot create selfsubjectaccessreviews")),
        ApiError(ApiStatus(404, "NotFound")),
        UnreachableError("connection refused"),
        CredentialsError("no token"),
        UncertainReviewError("a webhook timed out"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_api_server_that_does_not_say_does_not_keep_it_from_being_ready(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    reviewer = Reviewer(error)
    assert problem_after(0.1, reviewer) is None
    assert caplog.messages == ["cannot find out whether pods may be bound"]
    assert problem_after(300, reviewer) is None
    assert len(caplog.messages) == 2  # again once, by the second


def test_an_api_server_that_hangs_keeps_it_from_being_ready_for_five_seconds() -> None:
    assert problem_after(4.9, Reviewer(3600.0)) == "it is not known yet whether pods may be bound"
    assert problem_after(5.1, Reviewer(3600.0)) is None


def test_what_was_uncertain_is_asked_again() -> None:
    reviewer = Reviewer(UnreachableError("connection refused"))

    async def check(right: BindingRight) -> None:
        await asyncio.sleep(1)
        assert right.problem() is None
        reviewer.answer = False
        await asyncio.sleep(12)
        assert right.problem() == MISSING

    follow(reviewer, check)


@pytest.mark.parametrize("namespace", ["default", "shop"])
def test_a_right_in_one_namespace_is_enough(namespace: str) -> None:
    cluster = Cluster()
    cluster.apply_pod(make_pod("web"))  # in default; not all configurations have the namespaces themselves watched
    cluster.workloads.apply(Namespace(ObjectMeta(name="shop")))
    assert problem_after(1, Reviewer(False, **{namespace: True}), cluster) is None
    assert problem_after(1, Reviewer(False, bank=True), cluster) == MISSING


def test_more_namespaces_than_can_be_asked_in_time_are_uncertain() -> None:
    cluster = Cluster()
    for number in range(100):
        cluster.workloads.apply(Namespace(ObjectMeta(name=f"n{number}")))
    slow = Reviewer(False, **{f"n{number}": 0.1 for number in range(100)})
    assert problem_after(6, slow, cluster) is None

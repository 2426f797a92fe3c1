"""A request is repeated while another one may get through, as often and as late as client-go's retry.OnError does."""

import pytest

from extender_service.kube.api_errors import (
    ApiError,
    ApiStatus,
    InvalidAnswerError,
    KubeError,
    RefusedError,
    UnreachableError,
)
from extender_service.kube.connection.retries import is_transient, with_retries
from tests.support.event_loop import in_event_loop


def refusal(code: int, reason: str = "") -> ApiError:
    return ApiError(ApiStatus(code, reason, "no"))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        *((refusal(code), code in (500, 503)) for code in (400, 403, 404, 409, 422, 429, 500, 502, 503, 504)),
        (refusal(500, "InternalError"), True),
        (refusal(504, "InternalError"), True),
        (refusal(500, "ServerTimeout"), False),
        (RefusedError("nothing listens"), True),
        (UnreachableError("the answer was lost"), False),
        (InvalidAnswerError("no JSON"), False),
    ],
)
def test_only_a_server_in_trouble_for_a_moment_is_worth_another_try(error: KubeError, expected: bool) -> None:
    assert is_transient(error) == expected


@pytest.mark.parametrize(
    ("errors", "waits", "ends_with"),
    [
        ([], [], None),
        ([500], [0.01], None),
        ([503, 500, 503], [0.01, 0.05, 0.25], None),
        ([500, 500, 500, 503], [0.01, 0.05, 0.25], 503),
        ([500, 404], [0.01], 404),
    ],
)
@in_event_loop
async def test_a_request_is_made_four_times_with_waits_that_grow(
    errors: list[int], waits: list[float], ends_with: int | None
) -> None:
    left, slept = [refusal(code) for code in errors], list[float]()

    async def request() -> None:
        if left:
            raise left.pop(0)

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 9))

    if ends_with is None:
        await with_retries(request, is_transient, sleep)
    else:
        with pytest.raises(ApiError) as raised:
            await with_retries(request, is_transient, sleep)
        assert raised.value.status_code == ends_with
    assert (left, slept) == ([], waits)

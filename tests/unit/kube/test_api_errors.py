import json
from typing import Any

import pytest

from extender_service.kube.api_errors import ApiError, ApiStatus, error_from_response


def error(status_code: int = 504, **status: Any) -> ApiError:
    return error_from_response(status_code, {}, json.dumps({"kind": "Status", **status}).encode())


@pytest.mark.parametrize("refusal", [error(410), error(200, reason="Expired"), error(200, reason="Gone")])
def test_expired(refusal: ApiError) -> None:
    assert refusal.expired


@pytest.mark.parametrize(
    "refusal",
    [
        error(details={"causes": [{"reason": "ResourceVersionTooLarge", "message": "m"}]}),
        error(reason="Timeout", details={"causes": [{"message": "Too large resource version"}]}),
        error(reason="Timeout", message="Too large resource version: 8, current: 7"),
    ],
)
def test_too_large_resource_version_in_each_release(refusal: ApiError) -> None:
    assert refusal.too_large_resource_version
    assert not refusal.expired


def test_another_time_out_is_neither() -> None:
    refusal = error(reason="Timeout", message="etcd did not answer")
    assert not refusal.too_large_resource_version
    assert not refusal.expired


def test_the_page_of_a_proxy_becomes_the_message() -> None:
    refusal = error_from_response(502, {}, b"<html>\n  <h1>Bad gateway</h1>\n" + b"x" * 1000)
    assert str(refusal).startswith("<html> <h1>Bad gateway</h1> xxx")
    assert str(refusal).endswith("x (502)")
    assert len(str(refusal)) < 220


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"code": 502, "message": "d\xe9lai"}', '{"code": 502, "message": "d\ufffdlai"} (502)'),
        (b'{"unknown": ' + b"[" * 100_000, '{"unknown": ' + "[" * 188 + " (502)"),
    ],
    ids=["Latin-1", "too deep"],
)
def test_json_of_a_gateway_that_cannot_be_read_becomes_the_message(body: bytes, message: str) -> None:
    assert str(error_from_response(502, {}, body)) == message


def test_without_a_message_the_code_and_reason_must_do() -> None:
    assert str(error(503, reason="ServiceUnavailable")) == "503 ServiceUnavailable"


def test_a_status_may_ask_for_patience_too() -> None:
    assert error(429, details={"retryAfterSeconds": 3}).retry_after_seconds == 3.0
    body = json.dumps({"details": {"retryAfterSeconds": 3}}).encode()
    assert error_from_response(429, {"Retry-After": "5"}, body).retry_after_seconds == 5.0
    assert error_from_response(429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"").retry_after_seconds is None


def test_patience_has_an_end() -> None:
    assert error_from_response(503, {"Retry-After": "3600"}, b"").retry_after_seconds == 60.0
    assert error(503, details={"retryAfterSeconds": 3600}).retry_after_seconds == 60.0


def test_only_a_header_asks_to_try_again() -> None:
    assert error_from_response(503, {"Retry-After": "5"}, b"").asks_to_retry
    assert not error_from_response(409, {"Retry-After": "5"}, b"").asks_to_retry
    assert not error_from_response(429, {}, b'{"details": {"retryAfterSeconds": 3}}').asks_to_retry


@pytest.mark.parametrize(
    ("status", "is_gone"),
    [
        (ApiStatus(404, "NotFound", 'pods "p" not found'), True),
        (ApiStatus(409, "Conflict", "Precondition failed: UID in precondition: a, UID in object meta: b"), True),
        (ApiStatus(409, "Conflict", "the UID in the precondition (a) does not match the UID in record (b)"), True),
        (ApiStatus(409, "Conflict", "the object has been modified; please apply your changes to the latest"), False),
        (ApiStatus(422, "Invalid", 'metadata.uid: Invalid value: "a": field is immutable'), True),
        (ApiStatus(422, "Invalid", "spec: Forbidden: pod updates may not change fields"), False),
        (ApiStatus(500, "InternalError", "etcdserver: request timed out"), False),
    ],
)
def test_an_object_is_gone_only_if_the_api_server_says_so(status: ApiStatus, *, is_gone: bool) -> None:
    assert ApiError(status).says_gone == is_gone

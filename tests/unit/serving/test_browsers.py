import pytest

from extender_service.serving.browsers import BrowserGuard

# As kube-scheduler sends them.
HEADERS = [
    (b"user-agent", b"kube-scheduler/v1.31.1"),
    (b"content-length", b"2"),
    (b"content-type", b"application/json"),
]

LOOPBACK = [
    b"127.0.0.1:8888",
    b"127.0.0.1",
    b"127.8.0.3:80",
    b"localhost:34567",  # of kubectl port-forward, whatever its port
    b"LOCALHOST",
    b"localhost:",
    b"[::1]:8888",
    b"[::1]",
    b"[0:0:0:0:0:0:0:1]",
]
FOREIGN = [
    b"evil.example:8888",
    b"evil.example",
    b"localhost.evil.example",
    b"127.0.0.1.evil.example",
    b"127.0.0.1@evil.example",
    b"127.0.0.1, evil.example",
    b"localhost:8888:80",
    b"evil.example:localhost",
    b"0.0.0.0:8888",
    b"10.0.0.7:8888",
    b"[::]:8888",
    b"::1",
    b"[::1",
    b"[fe80::1]",
    b"",
    b" ",
    b":8888",
    b"\xff\xfe",
    b"1" * 16_000,
]


def header(guard: BrowserGuard, *headers: tuple[bytes, bytes]) -> str | None:
    """The header for which a request is refused, if it is."""
    refused = guard.refuse([*HEADERS, *headers])
    return None if refused is None else refused.header


@pytest.mark.parametrize("host", LOOPBACK)
def test_who_calls_by_a_name_of_loopback_is_answered(host: bytes) -> None:
    guard = BrowserGuard("127.0.0.1")
    assert [header(guard, (b"host", host)) for _ in range(2)] == [None, None]


@pytest.mark.parametrize("host", FOREIGN)
def test_on_loopback_another_name_is_refused(host: bytes) -> None:
    guard = BrowserGuard("127.0.0.1")
    assert header(guard, (b"host", host)) == "host"
    assert header(guard, (b"host", b"localhost")) is None
    assert header(guard, (b"host", host)) == "host"
    assert header(guard, (b"host", b"localhost"), (b"host", host)) == "host"


def test_the_name_that_the_listener_was_told_to_listen_on_is_its_own() -> None:
    guard = BrowserGuard("scheduler.internal")
    assert header(guard, (b"host", b"Scheduler.internal:8888")) is None
    assert header(guard, (b"host", b"other.internal:8888")) == "host"
    assert header(BrowserGuard("::1"), (b"host", b"[::1]:8888")) is None


@pytest.mark.parametrize("host", LOOPBACK + FOREIGN)
def test_elsewhere_any_name_may_lead_here(host: bytes) -> None:
    assert header(BrowserGuard(None), (b"host", host)) is None


@pytest.mark.parametrize("own_name", ["127.0.0.1", None])
@pytest.mark.parametrize("origin", [b"http://evil.example", b"null", b"", b"http://127.0.0.1:8888"])
def test_a_request_with_an_origin_is_refused_wherever_it_comes_from(own_name: str | None, origin: bytes) -> None:
    guard = BrowserGuard(own_name)
    assert header(guard, (b"host", b"127.0.0.1:8888"), (b"origin", origin)) == "origin"


def test_a_request_without_host_is_no_browsers() -> None:
    assert header(BrowserGuard("127.0.0.1")) is None


def test_the_reason_names_the_header_and_what_to_do() -> None:
    guard = BrowserGuard("127.0.0.1")
    refused = guard.refuse([(b"host", b"proxy.internal\x1b[31m" + 10_000 * b"x")])
    assert refused is not None
    assert refused.problem.startswith("the Host header is 'proxy.internal\\x1b[31mx")
    assert "localhost, 127.0.0.0/8, [::1]" in refused.problem
    assert len(refused.problem) < 500
    refused = guard.refuse([(b"origin", b"http://evil.example")])
    assert refused is not None
    assert "Origin header" in refused.problem

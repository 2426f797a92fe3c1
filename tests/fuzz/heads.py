"""Requests whose HTTP is odd: other methods and paths, lengths that are none, chunks, and heads with bytes changed."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from tests.fuzz.mutation import mutate_bytes
from tests.fuzz.requests import Request

T = TypeVar("T")

_METHODS = (
    b"POST",
    b"GET",
    b"HEAD",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"PATCH",
    b"TRACE",
    b"CONNECT",
    b"post",
    b"BREW",
    b"",
    b"P\x00ST",
)
_PATHS = (
    *(
        b"/filter",
        b"/prioritize",
        b"/preempt",
        b"/bind",
        b"/readyz",
        b"/readyz?verbose",
        b"/livez?exclude=%00",
        b"/metrics",
    ),
    *(
        b"/healthz",
        b"/openapi.json",
        b"/docs",
        b"/redoc",
        b"/",
        b"",
        b"*",
        b"//filter",
        b"/filter/",
        b"/FILTER",
        b"/%66ilter",
    ),
    *(
        b"/filter?x=%zz",
        b"/filter#x",
        b"http://127.0.0.1/filter",
        b"/..//filter",
        b"/\xff",
        b"/%ff",
        b"/filter%00",
        b"/" + b"a" * 9000,
    ),
    *(b"/readyz?exclude=" + b"x" * 2000, b"/metrics?name[]=up", b"/readyz?exclude=%0d%0aset-cookie:x"),
)
_VERSIONS = (b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/0.9", b"HTTP/9.9", b"HTTP", b"", b"HTTP/1.1 x")
_HEADERS = (
    *(
        b"Connection: close",
        b"Connection: keep-alive",
        b"Connection: upgrade\r\nUpgrade: h2c",
        b"Upgrade: websocket",
        b"Expect: 100-continue",
    ),
    *(
        b"Expect: x",
        b"Content-Type: text/plain",
        b"Content-Type: \xff",
        b"Content-Encoding: gzip",
        b"Accept: \x00",
        b"Accept: application/openmetrics-text",
    ),
    *(
        b"Host: ",
        b"Host: a\r\nHost: b",
        b": x",
        b"x",
        b" folded: x",
        b"X-Long: " + b"a" * 70_000,
        b"X: " + b"\x80" * 10,
        b"Trailer: X",
    ),
    *(
        b"Cookie: " + b"a=b;" * 2000,
        b"Authorization: Bearer \xf0\x9f\x92\xa9",
        b"X-Forwarded-For: 1.2.3.4, ;",
        b"Range: bytes=0-",
    ),
    *(
        b"Accept: application/openmetrics-text; version=\xc3\xa9",
        b"Accept-Encoding: *;q=x",
        b"Connection: close, x, keep-alive",
    ),
)
_FRAMINGS = (
    "length",
    "chunks",
    "short",
    "long",
    "none",
    "twice",
    "both",
    "negative",
    "huge",
    "text",
    "odd chunks",
    "trailers",
)


@st.composite
def odd_requests(draw: st.DrawFn, requests: Sequence[Request]) -> Request:
    """A request that is odd in one way or several; two of them, now and then."""
    base = draw(st.sampled_from(requests))
    roll = draw(st.integers(0, 9))
    random = draw(st.randoms(use_true_random=False))
    if roll < 3:
        return Request(_with_mutated_head(random, base.raw))
    raw = _written(random, base.body if roll % 2 else b"{}")
    return Request(raw * 2 if roll == 9 else raw)


def _with_mutated_head(random: Random, raw: bytes) -> bytes:
    head, end, body = raw.partition(b"\r\n\r\n")
    return mutate_bytes(random, head, [head]) + end + body


def _written(random: Random, body: bytes) -> bytes:
    method = _mostly(random, b"POST", _METHODS)
    path = _mostly(random, b"/filter", _PATHS)
    version = _mostly(random, b"HTTP/1.1", _VERSIONS)
    headers = [random.choice(_HEADERS) for _ in range(random.randint(0, 2))]
    framing, sent = _framed(_mostly(random, "length", _FRAMINGS), body)
    end = _mostly(random, b"\r\n", (b"\n", b"\r"))
    return end.join([b" ".join([method, path, version]), b"Host: 127.0.0.1", *headers, *framing, b"", sent])


def _mostly(random: Random, usual: T, others: Sequence[T]) -> T:
    return random.choice(others) if random.randint(0, 3) == 3 else usual


def _framed(framing: str, body: bytes) -> tuple[list[bytes], bytes]:
    """The headers that tell how long a body is, and the body as it is sent."""
    length = b"Content-Length: %d" % len(body)
    chunked = b"Transfer-Encoding: chunked"
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    match framing:
        case "length":
            return [length], body
        case "chunks":
            return [chunked], chunks
        case "short":
            return [b"Content-Length: %d" % (len(body) // 2)], body
        case "long":
            return [b"Content-Length: %d" % (len(body) + 1)], body
        case "none":
            return [], body
        case "twice":
            return [length, b"Content-Length: 1"], body
        case "both":
            return [length, chunked], chunks
        case "negative":
            return [b"Content-Length: -1"], body
        case "huge":
            return [b"Content-Length: 99999999999999999999"], body
        case "text":
            return [b"Content-Length: +5, 5"], body
        case "trailers":
            return [chunked], chunks[:-2] + b"X-Trailer: \xff\r\n\r\n"
    return [b"Transfer-Encoding: gzip, chunked"], b"-1\r\n" + body + b"\r\nffffffffffffffffff\r\n" + body

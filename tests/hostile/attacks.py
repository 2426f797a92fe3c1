"""What hostile callers do. Each attack returns what it was answered, and raises AssertionError for a wrong answer."""

import asyncio
import http.client
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from tests.e2e.support.waiting import wait_until
from tests.hostile import pods
from tests.hostile.subject import MIB, Subject

Attack = Callable[[Subject], str]


def attacks(connections: int, share: float) -> dict[str, Attack]:
    """All attacks by name, with so many connections, and so much of everything else that takes long."""
    found: dict[str, Attack] = {}
    large = max(int(100 * share), 20)
    for name, (made, most, more) in pods.BY_LIMIT.items():
        found[f"{most:,} {name}"] = partial(is_decided_about, made(most))
        found[f"{more:,} {name}"] = partial(is_refused, made, max(int(more * share), 2 * most))
    return {
        **found,
        f"{large} MiB in one string": partial(
            body_is_refused, lambda: _body(b'{"metadata":{"name":"%s"}}', large * MIB, b"x")
        ),
        f"{large} MiB of whole nodes": partial(body_is_refused, lambda: _nodes(b'{"metadata":{}}', large * MIB)),
        f"{large} MiB of values": partial(body_is_refused, lambda: _nodes(b"0", large * MIB)),
        f"a node of {large} MiB": partial(body_is_refused, lambda: _nodes(b'"%s"' % (b"x" * large * MIB), 1)),
        "300 MB announced": too_long_a_body,
        "300 MB in chunks": endless_chunks,
        "nested 100,000 deep": deep_nesting,
        "numbers without end": partial(body_is_refused, lambda: _body(b'{"spec":{"priority":%s}}', 3 * MIB, b"9")),
        "names with everything": names_with_everything,
        "long reasons for each node": long_reasons,
        f"{connections:,} slow connections": partial(slow_connections, connections),
        f"{connections // 5:,} calls at once": partial(many_calls, connections // 5),
        "100 connections that scrape": partial(many_scrapes, max(int(100 * share), 20)),
        "bodies that never end": slow_bodies,
        "answers that nobody takes": partial(slow_readers, max(int(200 * share), 20)),
    }


def is_decided_about(pod: pods.Pod, subject: Subject) -> str:
    """A pod at the limit."""
    status, answer = subject.filter(pod)
    assert status == 200, status
    assert not answer["Error"], answer["Error"]
    return f"{len(answer['NodeNames'])} nodes"


def is_refused(made: Callable[[int], pods.Pod], count: int, subject: Subject) -> str:
    """A pod far beyond it."""
    return _error(*subject.filter(made(count)))


def body_is_refused(made: Callable[[], bytes], subject: Subject) -> str:
    """A body that must not be decoded whole."""
    return _error(*subject.call("filter", made()))


def deep_nesting(subject: Subject) -> str:
    """Lists and objects in each other, where they belong and where they do not."""
    lists, objects = b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    answer = ""
    for deep in (lists, objects):
        for body in (
            b'{"Pod":{"unknown":%s},"NodeNames":["a"]}',
            b'{"Pod":{"spec":null,"metadata":%s},"NodeNames":["a"]}',
            b'{"Pod":{},"Nodes":{"items":[%s]}}',
            b'{"unknown":%s,"Pod":{},"NodeNames":["a"]}',
        ):
            answer = _error(*subject.call("filter", body % deep))
    return answer


def too_long_a_body(subject: Subject) -> str:
    """A body whose length is beyond the limit, and of which little is sent."""
    with socket.create_connection(("127.0.0.1", subject.port), timeout=30) as caller:
        caller.sendall(b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n{" % (300 * MIB))
        return _status_line(caller, b" 413 ")


def endless_chunks(subject: Subject) -> str:
    """A body of unknown length."""
    with socket.create_connection(("127.0.0.1", subject.port), timeout=30) as caller:
        caller.sendall(b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(300):
            caller.sendall(b"100000\r\n" + b" " * MIB + b"\r\n")
        return _status_line(caller, b" 413 ")


# Line breaks, terminal codes, directions of writing, what is no character, quotes, and letters of many scripts.
STRANGE = 'a\nlevel=error\r\x1b[31m\x00\x7f\x85\u2028\u202e\u2066"\\ =%s%d{}\ufeff\ufffe🦄ä中\U0010fffd'


# A line of each call, and those of the bound pod that is not there and of the victim that is not.
_TOLD_OF_NAMES = 4


def names_with_everything(subject: Subject) -> str:
    """Names that are to stay in their place in answers and in logs, one line a record."""
    asked = pods.pod(STRANGE, schedulerName=STRANGE)
    asked["metadata"]["labels"] = {STRANGE: STRANGE}
    status, answer = subject.filter(asked, [STRANGE, subject.names[0]])
    assert status == 200
    assert answer["NodeNames"] == [subject.names[0]]
    assert list(answer["FailedAndUnresolvableNodes"]) == [STRANGE]
    for verb, body in (
        ("bind", {"PodName": STRANGE, "PodNamespace": STRANGE, "PodUID": STRANGE, "Node": STRANGE}),
        ("preempt", {"Pod": asked, "NodeNameToMetaVictims": {subject.names[0]: {"Pods": [{"UID": STRANGE}]}}}),
        ("prioritize", {"Pod": asked, "NodeNames": [STRANGE]}),
    ):
        subject.call(verb, msgspec.json.encode(body))

    def told_of() -> list[str]:
        return [line for line in subject.log.read_bytes().decode().split("\n") if "level=error" in line]

    # Of the calls of a moment it tells together.
    told = wait_until(lambda: told_of() if len(told_of()) >= _TOLD_OF_NAMES else [], "lines about the calls")
    for line in told:
        assert line.isprintable(), ascii(line)
        assert line.startswith("{"), line
    wait_until(
        lambda: any(
            line.get("pod") == f"default/{STRANGE}" and line.get("verb") == "prioritize" for line in subject.log_lines()
        ),
        "a line about the last call",
    )
    return f"{len(told)} lines, each whole"


def long_reasons(subject: Subject) -> str:
    """A claim that does not exist, with a name that is quoted for every node."""
    named = pods.pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": 200_000 * "x"}}])
    status, answer = subject.filter(named)
    assert status == 200
    return str(answer["Error"])[:60] or f"{len(answer['FailedAndUnresolvableNodes'])} nodes refused"


def slow_connections(count: int, subject: Subject) -> str:
    """Connections that send a part of a head and wait; some bring it byte by byte."""

    async def main() -> tuple[int, int]:
        opened: list[asyncio.StreamWriter] = []
        failed = 0
        for number in range(count):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", subject.port)
            except OSError:
                failed += 1
                continue
            writer.write(b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\n" if number % 2 else b"P")
            opened.append(writer)
        for _ in range(5):
            await asyncio.sleep(0.2)
            for writer in opened:
                writer.write(b"X")
        for writer in opened:
            writer.transport.abort()
        return len(opened), failed

    opened, failed = asyncio.run(main())
    assert opened > count / 2, failed
    crowded = subject.metric('extender_service_refused_connections_total{reason="crowd"}')
    return f"{opened} opened, {crowded:.0f} made room"


def many_calls(count: int, subject: Subject) -> str:
    """As many calls at once, each over a connection of its own: some are refused, none is left."""
    body = msgspec.json.encode({"Pod": pods.pod("one-of-many"), "NodeNames": subject.names})
    request = b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body

    async def main() -> list[bytes]:
        connections = [await asyncio.open_connection("127.0.0.1", subject.port) for _ in range(count)]
        for _, writer in connections:
            writer.write(request)
        heads = await asyncio.gather(*(reader.readuntil(b"\r\n\r\n") for reader, _ in connections))
        for _, writer in connections:
            writer.transport.abort()
        return heads

    answers = asyncio.run(main())
    assert all(head.startswith(b"HTTP/1.1 200 ") for head in answers)
    too_many = subject.metric('extender_service_limited_requests_total{limit="requests",verb="filter"}')
    return f"{len(answers)} answered, {too_many:.0f} with an error"


def many_scrapes(each: int, subject: Subject) -> str:
    """Callers who ask for metrics, one request after the other, as many times each: few of them need an encoding."""

    async def scrape() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", subject.port)
        for _ in range(each):
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 "), head
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].split()[0]))
        writer.transport.abort()

    async def main() -> None:
        await asyncio.gather(*(scrape() for _ in range(100)))

    began = time.monotonic()
    asyncio.run(main())
    return f"{100 * each / (time.monotonic() - began):,.0f} a second"


def slow_bodies(subject: Subject) -> str:
    """Large bodies that stop in the middle, together beyond what bodies may take."""
    head = b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % (200 * MIB)
    callers = [socket.create_connection(("127.0.0.1", subject.port), timeout=30) for _ in range(10)]
    try:
        for caller in callers:
            caller.sendall(head)
            for _ in range(100):
                caller.sendall(b" " * MIB)
        answered = is_decided_about(pods.pod(unknown=2 * MIB * "x"), subject)
    finally:
        for caller in callers:
            caller.close()
    given_up = subject.metric('extender_service_limited_requests_total{limit="bodies-size",verb="filter"}')
    assert given_up > 0
    return f"{given_up:.0f} given up, {answered} meanwhile"


def slow_readers(count: int, subject: Subject) -> str:
    """Callers who ask for large answers and do not read them."""
    long_names = [f"{'n' * 230}-{number}" for number in range(10_000)]
    body = msgspec.json.encode({"Pod": pods.pod(), "NodeNames": long_names})
    head = b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
    callers = [socket.create_connection(("127.0.0.1", subject.port), timeout=30) for _ in range(count)]
    try:
        for caller in callers:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            caller.sendall(head + body)
    finally:
        for caller in callers:
            caller.close()
    return f"{count} answers of {len(body) / MIB:.0f} MB"


def _body(pod: bytes, size: int, filler: bytes) -> bytes:
    return b'{"Pod":' + pod % (filler * size) + b',"NodeNames":["a"]}'


def _nodes(node: bytes, size: int) -> bytes:
    count = max(size // (len(node) + 1), 1)
    return b'{"Pod":{},"Nodes":{"items":[' + (count - 1) * (node + b",") + node + b"]}}"


def _error(status: int, answer: Any) -> str:
    assert status == 200, status
    error = str(answer["Error"])
    assert error
    assert "internal error" not in error, error
    return error


def _status_line(caller: socket.socket, expected: bytes) -> str:
    response = http.client.HTTPResponse(caller)
    response.begin()
    line = f"{response.status} {response.reason}"
    assert expected.strip().decode() in line, line
    return line

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fuzz import connections
from tests.fuzz.connections import Connection, HangError, exchange
from tests.fuzz.requests import Request

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


@contextmanager
def answering(answer: bytes, *, closes: bool) -> Iterator[int]:
    """A port on which one connection gets these bytes for whatever it sends first."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)
                if not closes:
                    is_over.wait()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            is_over.set()
            thread.join()


def ask(port: int) -> tuple[int, bytes]:
    connection = Connection(port)
    connection.send(Request.call("filter", b"{}"))
    try:
        answer = connection.answer()
    finally:
        connection.close()
    return answer.status, answer.body


def statuses(port: int, raw: bytes) -> list[int]:
    return [answer.status for answer in exchange(port, raw)]


def test_the_answer_to_a_call() -> None:
    with answering(OK, closes=False) as port:
        assert ask(port) == (200, b"{}")


def test_no_answer_in_time_is_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "ANSWER_SECONDS", 0.1)
    with answering(OK[:-1], closes=False) as port, pytest.raises(HangError):
        ask(port)
    with answering(OK[:-1], closes=False) as port, pytest.raises(HangError):
        exchange(port, GET)


def test_a_call_must_be_answered() -> None:
    with answering(b"", closes=True) as port, pytest.raises(ConnectionError):
        ask(port)


def test_a_connection_that_is_closed_after_an_answer_is_made_anew() -> None:
    with answering(REFUSED, closes=True) as first, answering(OK, closes=False) as second:
        connection = Connection(first)
        connection.send(Request.call("filter", b""))
        assert connection.answer().status == 400
        connection._port = second
        connection.send(Request.call("filter", b"{}"))
        assert connection.answer().status == 200
        connection.close()


def test_nobody_listens() -> None:
    with answering(OK, closes=True) as port:
        ask(port)
    with pytest.raises(ConnectionError, match="could not be sent"):
        ask(port)


def test_requests_one_after_the_other_have_an_answer_each() -> None:
    with answering(OK + OK, closes=False) as port:
        assert statuses(port, GET + GET) == [200, 200]


def test_an_answer_without_a_body_to_head() -> None:
    with answering(OK[:-2], closes=False) as port:
        assert statuses(port, GET.replace(b"GET", b"HEAD")) == [200]


def test_interim_answers_do_not_count() -> None:
    with answering(b"HTTP/1.1 100 Continue\r\n\r\n" + OK, closes=False) as port:
        assert statuses(port, GET) == [200]


def test_what_is_no_request_may_be_refused_or_left() -> None:
    with answering(REFUSED, closes=True) as port:
        assert statuses(port, b"\x00\r\n\r\n") == [400]
    with answering(b"", closes=True) as port:
        assert statuses(port, b"POST /filter HTTP/1.1\r\nContent-Length: 5\r\n\r\n{}") == []

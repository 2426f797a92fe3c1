"""Connections to a service: one that is kept, for calls of verbs, and one for anything else that bytes may say."""

import socket
import time

import httptools

from tests.fuzz.requests import Answer, Request

# Long enough for a machine that is busy with other things.
ANSWER_SECONDS = 15.0
_FINAL_STATUS = 200


class HangError(Exception):
    """No whole answer, and no end of the connection, came in time."""


class Connection:
    """A connection that is made anew where the service has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._started = 0.0
        self._problem = ""

    def send(self, request: Request) -> None:
        """Send a call of a verb; `answer` must follow, which tells of what goes wrong."""
        self._started = time.monotonic()
        self._problem = "the connection was closed without an answer"
        try:
            if self._socket is None:
                self._socket = _connect(self._port)
            self._socket.sendall(request.raw)
        except OSError as error:
            self._problem = f"a call could not be sent: {error}"
            self.close()

    def answer(self) -> Answer:
        """Wait for the answer to what was sent. Raises HangError, or ConnectionError if there is none."""
        answers = _Answers([b"POST"])
        try:
            while not answers.complete:
                data = b"" if self._socket is None else _receive(self._socket, self._started + ANSWER_SECONDS)
                if not data:
                    raise ConnectionError(self._problem)
                answers.feed(data)
        except (HangError, ConnectionError):
            self.close()
            raise
        if not answers.keep_connection:
            self.close()
        [answer] = answers.complete
        answer.seconds = time.monotonic() - self._started
        return answer

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def exchange(port: int, raw: bytes) -> list[Answer]:
    """Send bytes that may be no request, one, or several, and return what is answered. Raises HangError.

    Where more bytes belong to the request, the service is told that there are none; it must end the connection then.
    """
    started = time.monotonic()
    asked = _Asked(raw)
    answers = _Answers(asked.methods)
    with _connect(port) as connection:
        try:
            connection.sendall(raw)
            if not asked.has_end:
                connection.shutdown(socket.SHUT_WR)
            while asked.is_left_open or len(answers.complete) < len(asked.methods):
                data = _receive(connection, started + ANSWER_SECONDS)
                if not data:
                    break
                answers.feed(data)
        except TimeoutError as error:
            raise HangError("the service does not read what it is sent") from error
        except (ConnectionError, httptools.HttpParserError):
            pass  # refused before all was sent; or there is more, to which no method is known
    for answer in answers.complete:
        answer.seconds = time.monotonic() - started
    return answers.complete


class _Asked:
    """What bytes ask for, as the service's own parser of HTTP reads them."""

    def __init__(self, raw: bytes) -> None:
        self.methods: list[bytes] = []
        self._is_between = True
        self._parser = httptools.HttpRequestParser(self)
        self._is_broken = False
        try:
            self._parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            self._is_between = False
        except httptools.HttpParserError:
            self._is_broken = True

    @property
    def has_end(self) -> bool:
        """Whether the service can tell that nothing is missing."""
        return self._is_broken or (self._is_between and bool(self.methods))

    @property
    def is_left_open(self) -> bool:
        """Whether only the end of the connection shows that all is answered."""
        return self._is_broken or not self.has_end

    def on_message_begin(self) -> None:
        self._is_between = False

    def on_message_complete(self) -> None:
        self.methods.append(self._parser.get_method())
        self._is_between = True


class _Answers:
    """The answers to requests of these methods, as they come."""

    def __init__(self, methods: list[bytes]) -> None:
        self.complete: list[Answer] = []
        self._methods = methods
        self._parser = httptools.HttpResponseParser(self)

    @property
    def keep_connection(self) -> bool:
        """Whether the last answer leaves the connection open."""
        return bool(self._parser.should_keep_alive())

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._body: list[bytes] = []

    def on_headers_complete(self) -> None:
        at = len(self.complete)
        if self._parser.get_status_code() >= _FINAL_STATUS and self._methods[at : at + 1] == [b"HEAD"]:
            self._finish()  # though its length is told, no body follows

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= _FINAL_STATUS:
            self._finish()

    def _finish(self) -> None:
        self.complete.append(Answer(self._parser.get_status_code(), b"".join(self._body)))


def _connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), ANSWER_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _receive(connection: socket.socket, deadline: float) -> bytes:
    """Wait for what comes next; nothing is the end of the connection."""
    connection.settimeout(max(deadline - time.monotonic(), 0.001))
    try:
        return connection.recv(1 << 18)
    except TimeoutError as error:
        raise HangError(f"no answer within {ANSWER_SECONDS:g} s") from error

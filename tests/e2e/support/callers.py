"""Callers that keep their connections, as kube-scheduler does, and note every call that fails."""

import http.client
import itertools
import json
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.e2e.support.objects import Object

# A call, and what it asks.
Question = tuple[str, Object]


class Connection:
    """One caller's way to a service, over one connection at a time.

    A connection that was closed while nothing was asked is replaced, as Go's client does. A call that fails is not made
    again: neither does kube-scheduler.
    """

    def __init__(self, url: str, timeout_seconds: float = 20.0) -> None:
        where = urlsplit(url)
        assert where.hostname
        self._http = http.client.HTTPConnection(where.hostname, where.port, timeout=timeout_seconds)

    def call(self, verb: str, body: Object) -> bytes:
        """Make a call; returns the answer's body. Raises OSError, http.client.HTTPException and ValueError."""
        if self._http.sock is not None and _has_been_closed(self._http.sock):
            self._http.close()
        try:
            self._http.request("POST", f"/{verb}", json.dumps(body))
            answer = self._http.getresponse()
            text = answer.read()
        except BaseException:
            self._http.close()
            raise
        if answer.status != http.HTTPStatus.OK:
            raise ValueError(f"status {answer.status}: {text!r}")
        return text

    def close(self) -> None:
        self._http.close()


class Load:
    """What came of the calls: how many were answered, by caller, and what failed."""

    def __init__(self, callers: int) -> None:
        self.answered = [0] * callers
        self.failures: list[str] = []
        self.is_over = threading.Event()

    @property
    def slowest(self) -> int:
        """How many calls of each caller were answered, at least."""
        return min(self.answered)


@contextmanager
def load(url: str, questions: Sequence[Question], pauses_seconds: Sequence[float]) -> Iterator[Load]:
    """Ask the questions again and again: a caller with a connection of its own for each pause between two calls."""
    made = Load(len(pauses_seconds))

    def keep_calling(caller: int, pause_seconds: float) -> None:
        connection = Connection(url)
        for verb, body in itertools.cycle(questions):
            if made.is_over.wait(pause_seconds):
                break
            try:
                answer = json.loads(connection.call(verb, body))
                if isinstance(answer, dict) and answer["Error"]:
                    raise ValueError(answer["Error"])
            except (OSError, http.client.HTTPException, ValueError) as error:
                made.failures.append(f"{time.strftime('%X')} caller {caller}, {verb}: {error!r}")
            else:
                made.answered[caller] += 1
        connection.close()

    callers = [threading.Thread(target=keep_calling, args=each) for each in enumerate(pauses_seconds)]
    for caller in callers:
        caller.start()
    try:
        yield made
    finally:
        made.is_over.set()
        for caller in callers:
            caller.join()


def _has_been_closed(sock: socket.socket) -> bool:
    """Whether there is something to read where nothing was asked: the end."""
    readable, _, _ = select.select([sock], [], [], 0)
    return bool(readable)

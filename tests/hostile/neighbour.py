"""An ordinary caller beside the hostile ones."""

import http.client
import json
import threading
import time
from types import TracebackType
from typing import Self

import msgspec

from tests.hostile.pods import pod
from tests.hostile.subject import Subject

_PAUSE_SECONDS = 0.02


class Neighbour:
    """Asks about an ordinary pod again and again, over one connection and now and then a new one, in a thread.

    `slowest` is the longest that an answer took, in seconds; `faults` are answers other than the right one.
    """

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._body = msgspec.json.encode({"Pod": pod("ordinary"), "NodeNames": subject.names[:100]})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.slowest = 0.0
        self.calls = 0
        self.faults: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        time.sleep(5 * _PAUSE_SECONDS)  # one call more, after it all
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        connection = self._connection()
        while not self._stop.wait(_PAUSE_SECONDS):
            started = time.monotonic()
            try:
                connection.request("POST", "/filter", self._body)
                answer = json.loads(connection.getresponse().read())
                if answer["Error"] or not answer["NodeNames"]:
                    self.faults.append(answer["Error"] or "no node")
            except (OSError, http.client.HTTPException) as error:
                self.faults.append(repr(error))
                connection.close()
            self.slowest = max(self.slowest, time.monotonic() - started)
            self.calls += 1
            if self.calls % 10 == 0:
                connection.close()
                connection = self._connection()
        connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._subject.port, timeout=30)

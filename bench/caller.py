"""A client that calls a verb in the background, and measures the time of each call."""

import http.client
import threading
import time
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from bench.programs import Server


class Caller:
    """Calls a verb over one connection, one call after the other, while the context lasts.

    `milliseconds` has the time of each call. Ignores the answers: a service that is not ready answers with an error.
    """

    def __init__(self, server: Server, body: bytes, verb: str = "filter") -> None:
        self.milliseconds: list[float] = []
        self._address = urlsplit(server.url).netloc
        self._body = body
        self._path = f"/{verb}"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._call, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def _call(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=300)
        while not self._is_over.is_set():
            started = time.perf_counter()
            connection.request("POST", self._path, self._body, {"Content-Type": "application/json"})
            connection.getresponse().read()
            self.milliseconds.append((time.perf_counter() - started) * 1000)
        connection.close()

"""A client that calls a verb in the background, and measures the time of each call."""

import http.client
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from bench.programs import Server


class Caller:
    """Calls a verb over one connection, one call after the other, while it lasts. There must be a body for each call.

    `milliseconds` has the time of each call. Ignores the answers: a service that is not ready answers with an error.
    """

    def __init__(self, server: Server, bodies: Iterator[bytes], verb: str = "filter") -> None:
        self.milliseconds: list[float] = []
        self._address = urlsplit(server.url).netloc
        self._bodies = bodies
        self._path = f"/{verb}"
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._call, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def wait(self, seconds: float, calls: int) -> None:
        """Wait so many seconds, and longer until so many calls are answered. Raises RuntimeError if one fails."""
        time.sleep(seconds)
        while len(self.milliseconds) < calls:
            if not self._thread.is_alive():
                raise RuntimeError(f"a call of {self._path} failed after {len(self.milliseconds)} calls")
            time.sleep(0.01)

    def _call(self) -> None:
        connection = http.client.HTTPConnection(self._address, timeout=300)
        while not self._is_over.is_set():
            body = next(self._bodies)
            started = time.perf_counter()
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            connection.getresponse().read()
            self.milliseconds.append((time.perf_counter() - started) * 1000)
        connection.close()

"""Fixtures of several tests: a clock, and a web server on 127.0.0.1."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Clock:
    """A clock in seconds that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


class WebServer:
    """Answers every request with `status` and `body` once `open` is set, and keeps the bodies that it receives."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b""
        self.received: list[bytes] = []
        self.asked = threading.Event()
        self.open = threading.Event()
        self.open.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        """Finish the requests under way, and stop."""
        self.open.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.asked.set()
                web.open.wait()
                self.send_response(web.status)
                self.send_header("Content-Length", str(len(web.body)))
                self.end_headers()
                self.wfile.write(web.body)

            def do_POST(self) -> None:
                web.received.append(self.rfile.read(int(self.headers["Content-Length"])))
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Keep quiet."""

        return Handler


@pytest.fixture
def clock() -> Clock:
    """Return a clock for a Trial."""
    return Clock()


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    """Yield a web server that clients reach without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = WebServer()
    yield server
    server.close()

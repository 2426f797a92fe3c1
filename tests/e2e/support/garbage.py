"""A server in the service's place that answers every call with another kind of nonsense."""

import itertools
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KINDS = {
    "no JSON": b"<html>It works!</html>",
    "wrong JSON": b'{"NodeNames": 5, "FailedNodes": [], "Error": {}}',
    "half JSON": b'{"NodeNames": ["no',
    "a node that was not asked about": b'{"NodeNames": ["nowhere"], "Nodes": null}',
    "nothing": b"",
    "status 500": b"",
    "an endless body": b"",
}


class _Server(ThreadingHTTPServer):
    """Closes its connections when it is closed."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.kinds = itertools.cycle(KINDS)
        self.answered: Counter[str] = Counter()
        self._connections: set[socket.socket] = set()

    def process_request(self, request: socket.socket, client_address: str) -> None:  # type: ignore[override]
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        self._connections.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        for connection in list(self._connections):
            connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        kind = next(self.server.kinds)
        self.server.answered[kind] += 1
        self.send_response(500 if kind == "status 500" else 200)
        if kind != "an endless body":
            self.send_header("Content-Length", str(len(KINDS[kind])))
            self.end_headers()
            self.wfile.write(KINDS[kind])
            return
        self.end_headers()
        self.wfile.write(b'{"NodeNames": [')
        try:
            while True:
                self.wfile.write(b'"node",' * 1000)
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - that is its name
        """Say nothing."""


@contextmanager
def answering_garbage(port: int) -> Iterator[Counter[str]]:
    """Answer so on a port of 127.0.0.1; returns how often with which kind."""
    with _Server(port) as server:
        serving = threading.Thread(target=server.serve_forever, args=[0.05])
        serving.start()
        try:
            yield server.answered
        finally:
            server.shutdown()
            serving.join()
            server.hang_up()

"""scripts/audit, as OSV would answer it."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

AUDIT = Path(__file__).parents[2] / "scripts" / "audit"


@contextmanager
def osv(vulnerable: str) -> Iterator[tuple[str, list[str]]]:
    """A vulnerability service that knows of one in this package: its URL, and the packages that it was asked about."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            package = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["package"]
            asked.append(package["name"])
            answer: dict[str, Any] = {}
            if package["name"] == vulnerable:
                affected = [{"package": package, "ranges": []}]
                answer = {"vulns": [{"id": "GHSA-test", "summary": "It leaks.", "affected": affected}]}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/query", asked
        finally:
            server.shutdown()
            thread.join()


def audit(url: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OSV_URL": url, "NO_PROXY": "127.0.0.1"}
    return subprocess.run([AUDIT], check=False, capture_output=True, text=True, env=environment)


def test_passes_where_nothing_is_known_and_asks_about_tools_too() -> None:
    with osv("nothing-of-ours") as (url, asked):
        done = audit(url)
    assert done.returncode == 0, done.stderr
    assert {"numpy", "uvicorn", "pytest"} <= set(asked)


def test_fails_on_a_known_vulnerability_and_names_it() -> None:
    with osv("starlette") as (url, _):
        done = audit(url)
    assert done.returncode == 1
    assert "starlette" in done.stdout
    assert "GHSA-test" in done.stdout


def test_says_so_where_nobody_could_be_asked() -> None:
    with osv("starlette") as (url, _):
        pass
    done = audit(url)
    assert done.returncode == 0
    assert done.stdout.startswith(f"NOT AUDITED: no answer from {url}: ")

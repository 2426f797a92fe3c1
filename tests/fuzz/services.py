"""The services that are asked: real processes, in both modes, whose logs and memory are looked at."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench.programs import Server, service
from tests.fuzz.cluster import FuzzedCluster
from tests.fuzz.connections import Connection
from tests.fuzz.stub_api import StubApi

# As logfmt text: what every line begins with, whatever a request made the service say.
_TEXT_LINE = re.compile(r"time=\S+ level=(\w+) logger=\S+ msg=")
_FINE_LEVELS = ("debug", "info", "warning")


class FuzzedService:
    """A running service; `mode` is its name, too."""

    def __init__(self, server: Server, mode: str, *, logs_json: bool) -> None:
        self.mode = mode
        self.port = urlsplit(server.url).port or 0
        self._server = server
        self._logs_json = logs_json
        self._connections: list[Connection] = []
        self._log_read = server.process.log.stat().st_size

    @property
    def resident_mib(self) -> float:
        """The memory that it has in use."""
        return self._server.resident_mib

    def connection(self, at: int) -> Connection:
        """A connection by its number."""
        while len(self._connections) <= at:
            self._connections.append(Connection(self.port))
        return self._connections[at]

    def close_connections(self) -> None:
        for connection in self._connections:
            connection.close()

    def problems(self) -> Iterator[str]:
        """What is wrong with the process, and with what it has logged since this was last asked."""
        if self._server.process.exit_code is not None:
            yield f"crashed: exit code {self._server.process.exit_code}: {self._server.process.log_tail()}"
        elif not self._server.is_ready():
            yield "not ready any more"
        yield from self._problems_in_log()

    def _problems_in_log(self) -> Iterator[str]:
        with self._server.process.log.open("rb") as log:
            log.seek(self._log_read)
            whole = log.read().rpartition(b"\n")[0]
        self._log_read += len(whole)
        for line in whole.strip(b"\n").split(b"\n"):
            if line and (problem := self._problem_with(line)):
                yield f"log: {problem}: {line[:2000].decode(errors='replace')}"

    def _problem_with(self, line: bytes) -> str:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            return "not UTF-8"
        if not text.isprintable():
            return "a character that is not printable"
        try:
            level = json.loads(text)["level"] if self._logs_json else _level(text)
        except ValueError:
            return "not a record of its own"
        return "" if level in _FINE_LEVELS else f"level {level}"


def _level(line: str) -> str:
    beginning = _TEXT_LINE.match(line)
    if beginning is None:
        raise ValueError("a line of text must begin with time, level, logger and message")
    return beginning[1]


@contextmanager
def running_services(directory: Path, cluster: FuzzedCluster, api: StubApi) -> Iterator[list[FuzzedService]]:
    """`replace` with an API server, where pods are expected and bound, and `beside` on a cluster file."""
    file = directory / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": cluster.objects}))
    with ExitStack() as stack:
        live = stack.enter_context(service(directory, f"--master={api.url}", "--mode=replace", "--log-format=json"))
        of_file = stack.enter_context(service(directory, f"--cluster-file={file}", "--mode=beside"))
        services = [
            FuzzedService(live, "replace", logs_json=True),
            FuzzedService(of_file, "beside", logs_json=False),
        ]
        try:
            yield services
        finally:
            for each in services:
                each.close_connections()

"""The service between a real control plane behind a faulty proxy and those who call it, while the cluster changes."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from tests.e2e.support.faulty_proxy import EventHandler, Exchange, FaultyProxy, Handler
from tests.e2e.support.objects import Object
from tests.e2e.support.programs.control_plane import ControlPlane
from tests.e2e.support.programs.service import Service
from tests.e2e.support.waiting import wait_until
from tests.faults.access import RotatingAccess
from tests.faults.callers import Callers
from tests.faults.churn import Churn, Ticks

# The service's own default, on which depends how long its watches last.
STALE_LIMIT_SECONDS = 30

_EXPIRED = {"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old"}


class Scene:
    """A context manager: everything runs in it. Faults and comparisons are made from the main thread.

    `hits`: how often a fault has hit something.
    """

    def __init__(self, control_plane: ControlPlane, directory: Path, seed: int) -> None:
        self.control_plane = control_plane
        self.directory = directory
        self.random = random.Random(seed)
        self.access = RotatingAccess(control_plane, directory)
        self._seed = seed
        self.hits = 0
        self._complaints: list[str] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.proxy = stack.enter_context(FaultyProxy(self.control_plane, access=self.access))
            self.churn = stack.enter_context(Churn(self.control_plane.api, self._seed))
            self.ticks = stack.enter_context(Ticks(self.control_plane.api, self.churn))
            self.service = stack.enter_context(
                Service(
                    self.directory,
                    self.proxy.kubeconfig,
                    mode="beside",
                    options=[f"--stale-limit={STALE_LIMIT_SECONDS}s"],
                )
            )
            self._log = _Log(stack.enter_context(self.service.log.open()))
            self.callers = stack.enter_context(Callers(self.service, self.ticks, STALE_LIMIT_SECONDS, self._seed))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stack.__exit__(kind, error, tb)

    @contextmanager
    def requests(self, handler: Handler) -> Iterator[None]:
        """While the context lasts, the handler answers what the service asks of the API server."""
        self.proxy.handler = handler
        try:
            yield
        finally:
            self.proxy.handler = Exchange.pass_on

    @contextmanager
    def events(self, handler: EventHandler) -> Iterator[None]:
        """While the context lasts, the handler passes on what watches tell."""
        self.proxy.on_event = handler
        try:
            yield
        finally:
            self.proxy.on_event = Exchange.send

    def cut_watches(self) -> int:
        """Close all watches' connections; returns how many there were."""
        return self.proxy.call(Exchange.cut, lambda exchange: exchange.is_watch)

    def expire_watches(self) -> int:
        """End all watches with an event that tells that their version is too old; returns how many there were."""
        line = json.dumps({"type": "ERROR", "object": _EXPIRED}).encode() + b"\n"
        return self.proxy.call(lambda exchange: exchange.end_with(line), lambda exchange: exchange.is_watch)

    def wait(self, least: float, most: float) -> None:
        """Let a random time pass."""
        time.sleep(self.random.uniform(least, most))

    def last(self, least: float, most: float) -> None:
        """Let a fault last for a random time, or until it has hit something."""
        self.wait(least, most)
        wait_until(lambda: self.hits, "the fault to hit something")

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Nothing changes in the cluster while the context lasts."""
        with self.churn.paused(), self.ticks.paused():
            yield

    def differences(self) -> list[str]:
        """What differs between the service's cache and the API server, and what keeps it from being ready."""
        self._log.read()
        os.kill(self.service.process.pid, signal.SIGUSR2)
        lines: list[Object] = []

        def is_told() -> bool:
            self.service.process.require_running()
            lines.extend(self._log.read())
            return any(line["msg"].startswith("dump: tables:") for line in lines)

        wait_until(is_told, "the service to compare its cache with the API server", 90)
        told = [line["msg"] for line in lines if line["msg"].startswith(("the cache differs", "cannot compare"))]
        if not self.service.is_ready():
            told.append("it is not ready")
        return told

    def complain(self, text: str) -> None:
        """Tell of something that should not have happened."""
        self._complaints.append(text)

    def complaints(self) -> list[str]:
        """What should not have happened since this was asked last."""
        self._log.read()
        sources = (self._complaints, self.callers.complaints, self._log.complaints)
        found = [text for source in sources for text in source]
        for source in sources:
            source.clear()
        return found


class _Log:
    """A log that is read as it grows; `complaints` are the lines that tell of a defect."""

    def __init__(self, file: TextIO) -> None:
        self.complaints: list[str] = []
        self._file = file
        self._rest = ""

    def read(self) -> list[Object]:
        """The lines that are new."""
        *lines, self._rest = (self._rest + self._file.read()).split("\n")
        return [line for text in lines if (line := self._line(text)) is not None]

    def _line(self, text: str) -> Object | None:
        try:
            line: Object = json.loads(text)
        except ValueError:
            self.complaints.append(text)
            return None
        if line["level"] == "error" or "exception" in line or line["logger"] == "py.warnings":
            self.complaints.append(text)
        return line

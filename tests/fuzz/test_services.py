from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bench.programs import Server
from tests.fuzz.services import FuzzedService

TEXT = "time=2026-01-01T00:00:00Z level={} logger=a msg=b"
JSON = '{{"time": "2026-01-01T00:00:00Z", "level": "{}", "logger": "a", "msg": "b"}}'


class LoggingService(FuzzedService):
    """A service that runs, and logs what a test wants it to."""

    def __init__(self, log: Path, *, logs_json: bool = False) -> None:
        self.log = log
        log.write_text("Welcome!\nwhat was there before is not looked at\n")
        process = SimpleNamespace(log=log, exit_code=None)
        server = SimpleNamespace(url="http://127.0.0.1:1", process=process, is_ready=lambda: True)
        super().__init__(cast(Server, server), "beside", logs_json=logs_json)

    def complaints(self, text: str) -> list[str]:
        """What there is to say about a text in the log."""
        with self.log.open("a") as log:
            log.write(text)
        return list(self.problems())


def test_records_are_looked_at_once_they_are_whole(tmp_path: Path) -> None:
    service = LoggingService(tmp_path / "log")
    line = TEXT.format("info")
    assert service.complaints(f"{line}\n{line[:20]}") == []
    assert service.complaints(f"{line[20:]}\n") == []
    assert len(service.complaints("stray\n")) == 1
    assert service.complaints("") == []


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (TEXT.format("error"), "level error"),
        ("Traceback (most recent call last):", "not a record of its own"),
        (TEXT.format("info") + "\x1b[31m", "not printable"),
        (TEXT.format("info") + "\u2028", "not printable"),
    ],
)
def test_what_a_text_log_must_not_have(tmp_path: Path, line: str, complaint: str) -> None:
    [problem] = LoggingService(tmp_path / "log").complaints(f"{line}\n")
    assert complaint in problem


def test_what_a_json_log_must_not_have(tmp_path: Path) -> None:
    service = LoggingService(tmp_path / "log", logs_json=True)
    assert service.complaints(JSON.format("warning") + "\n") == []
    [problem] = service.complaints(JSON.format("critical") + "\n")
    assert "level critical" in problem
    [problem] = service.complaints(TEXT.format("info") + "\n")
    assert "not a record of its own" in problem

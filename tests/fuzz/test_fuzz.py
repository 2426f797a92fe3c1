import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.checker import PROGRAM

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def checker(build_go: Callable[[Path], Path]) -> None:
    """kube-scheduler's own types must be able to read all answers."""
    build_go(PROGRAM)


def test_nothing_is_found_in_some_thousand_requests(tmp_path: Path) -> None:
    options = ["--requests=4000", f"--findings={tmp_path}"]
    done = subprocess.run([sys.executable, "-m", "tests.fuzz", *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_request_is_sent_again_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "metrics.http"
    file.write_bytes(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    command: list[str | Path] = [sys.executable, "-m", "tests.fuzz", "--replay", file]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "200: 2" in done.stdout

"""A run leaves nothing behind, however it ends."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
ENDS_ITSELF = """
import os, signal
from bench.run import main

def part(run):
    print(run.directory, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    signal.pause()

main("test", None, [part])
"""


FAILS_IN_PART = """
from bench.run import main

def part(run):
    run.report.failure("test", "one of two was not measured", TimeoutError("too late"))
    print("the other one was")

main("test", None, [part])
"""


def _run(program: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program, "--quick"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def test_a_run_that_is_told_to_end_deletes_its_files(tmp_path: Path) -> None:
    run = _run(ENDS_ITSELF, tmp_path)
    assert f"{tmp_path}/bench-" in run.stdout
    assert run.returncode == 128 + 15
    assert [*tmp_path.iterdir()] == []


def test_a_run_goes_on_after_a_failure_and_fails_in_the_end(tmp_path: Path) -> None:
    run = _run(FAILS_IN_PART, tmp_path)
    assert run.returncode == 1
    assert "test: one of two was not measured: TimeoutError('too late')" in run.stdout
    assert run.stdout.endswith("the other one was\n")
    assert "TimeoutError: too late" in run.stderr

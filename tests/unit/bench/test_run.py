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


def test_a_run_that_is_told_to_end_deletes_its_files(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", ENDS_ITSELF, "--quick"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert f"{tmp_path}/bench-" in run.stdout
    assert run.returncode == 128 + 15
    assert [*tmp_path.iterdir()] == []

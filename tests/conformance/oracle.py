"""Builds the oracle, which runs kube-scheduler's own plugins, and asks it."""

import subprocess
import sys
from pathlib import Path

from tests.support.go_programs import build

ORACLE = Path(__file__).parents[1] / "oracle"


def ask(cases: bytes) -> bytes:
    """Return the verdicts on cases, in the same order; both are JSON lines. Raises RuntimeError with what Go said."""
    done = subprocess.run([build(ORACLE)], input=cases, capture_output=True)
    if done.returncode:
        raise RuntimeError(f"the oracle failed: {done.stderr.decode()}")
    return done.stdout


def generate(seed: int, count: int, families: list[str]) -> bytes:
    """Return random cases, `count` of each family."""
    chosen = [f"--family={family}" for family in families]
    command: list[str | Path] = [sys.executable, ORACLE / "generate.py", f"--seed={seed}", f"--count={count}", *chosen]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
